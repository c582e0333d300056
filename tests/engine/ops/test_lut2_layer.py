"""Interpolated tables: the original's integers, and how close they are to the function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.ir import attribute, load_model
from engine.ops.core.element_functions import FUNCTIONS
from engine.ops.foreign.composite import swish
from engine.ops.lut2_layer import interpolation_tables
from engine.ops.registry import operator, read_attributes
from tests.engine.simulate.models import node_model

RAMP = np.arange(-32768, 32768).astype(np.int16).reshape(1, -1)
SMOOTH = ["Sigmoid", "Tanh", "Softplus", "Erf", "Exp", "Atan", "Sinh", "Cosh", "Elu", "HzSwish", "HzGelu", "HzMish"]
SINGULAR = ["Log", "Sqrt", "Reciprocal", "Asin", "Acosh", "HzRsqrt"]


def function(name: str, x: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return FUNCTIONS[name](x, {"epsilon": 1e-5} if name == "HzRsqrt" else {})


def errors(name: str, threshold: float) -> NDArray[np.float64]:
    """Distance from the function in output units, per int16 input."""
    xs = threshold / 32767
    exact = function(name, RAMP * np.float64(xs))
    ys = float(np.abs(exact[np.isfinite(exact)]).max()) / 32767
    attributes = interpolation_tables(lambda x: function(name, x), xs, ys)
    node = node_model("HzLut2Layer", [RAMP], {"output_bit": 16, **attributes}).graph[0]
    (found,) = operator("HzLut2Layer").reference([RAMP], read_attributes(node))
    wanted = np.clip(np.nan_to_num(exact / ys, nan=-32768), -32768, 32767)
    return np.abs(found - wanted)


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_are_close_everywhere(name: str) -> None:
    assert errors(name, 4.0).max() < 12


@pytest.mark.parametrize("name", SINGULAR)
def test_functions_with_a_singularity_are_close_elsewhere(name: str) -> None:
    assert np.quantile(errors(name, 4.0), 0.95) < 3


@pytest.mark.reference
def test_segments_of_swish_are_the_originals(reference_dir: Path) -> None:
    """Its thresholds are not known: these were fitted to the table, which the segments do not come from."""
    model = load_model(reference_dir / "golden" / "operators" / "op_lut2_i16_swish.onnx")
    (node,) = model.graph
    found = interpolation_tables(lambda x: swish(x, {}), 4.58834 / 32767, 4.542141 / 32767)
    for name in ("bound", "scale", "left_shift", "right_shift"):
        assert found[name] == list(attribute(node, name))
    for name in ("bias", "table_param"):
        np.testing.assert_allclose(found[name], attribute(node, name), atol=1)
