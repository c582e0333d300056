"""Interpolated tables: the original's integers, and how close they are to the function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.ir import attribute, load_model
from engine.ops.core.element_functions import FUNCTIONS
from engine.ops.foreign.composite import hard_swish, swish
from engine.ops.lut import CURVES
from engine.ops.lut2_layer import Curve, interpolation_tables
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
    found = interpolation_tables(lambda x: swish(x, {}), 4.58835 / 32767, 4.542261 / 32767)
    for name in ("bound", "scale", "left_shift", "right_shift"):
        assert found[name] == list(attribute(node, name))
    for name in ("bias", "table_param"):
        np.testing.assert_allclose(found[name], attribute(node, name), atol=1)


@pytest.mark.parametrize(
    ("name", "threshold", "curve", "bounds"),
    [
        ("HzHardSwish", 9.3518, CURVES["HzHardSwish"], [-10511, -6898, -3367, 82, 3613, 7062, 10511]),
        ("HzSwish", 15.636, CURVES["HzSwish"], [-27243, -2128, -851, 213, 1277, 2554, 27243]),
        ("Elu", 9.0, CURVES["Elu"], None),
    ],
)
def test_segments_lie_where_a_function_is_bent(
    name: str, threshold: float, curve: Curve, bounds: list[int] | None
) -> None:
    """Bounds of ``mobilenet_v3`` and ``yolov8_nhwc``; the last one of an Elu is 0."""
    xs = threshold / 32767
    found = interpolation_tables(lambda x: function(name, x), xs, xs, curve)
    if bounds is None:
        assert (found["bound"][0], found["bound"][6]) == (-32768, 0)
    else:
        assert found["bound"][:7] == bounds
    node = node_model("HzLut2Layer", [RAMP], {"output_bit": 16, **found}).graph[0]
    (actual,) = operator("HzLut2Layer").reference([RAMP], read_attributes(node))
    wanted = np.clip(function(name, RAMP * np.float64(xs)) / xs, -32768, 32767)
    assert np.abs(actual - wanted).max() < 12


def test_segments_of_a_straight_line_are_even() -> None:
    """As the int16 HardSigmoids of ``mobilenet_v3``."""
    found = interpolation_tables(lambda x: np.clip(x / 6 + 0.5, 0, 1), 3 / 32767, 1 / 32767, CURVES["HardSigmoid"])
    assert found["bound"][:7] == [-32767, -21845, -10922, 0, 10922, 21845, 32767]
    assert (found["scale"][0], found["bias"][0]) == (0, 0)


def test_tables_saturate_at_the_width_of_the_output() -> None:
    found = interpolation_tables(np.tanh, 4 / 32767, 0.5 / 127, bits=8)
    assert (min(found["table_param"]), max(found["table_param"])) == (-128, 127)


def test_the_grid_over_all_inputs_is_computed_in_float32() -> None:
    """The recorded table of ``Sigmoid_61`` of ``db_text_a``: in float64 the fifth offset would be -17170."""
    found = interpolation_tables(lambda x: function("Sigmoid", x), 0.00033845973666757345, 3.051804378628731e-05)
    assert found["bias"] == [26440, 20043, 18329, 30110, -17169, -23456, -17245, 32761]
    assert found["bound"] == [-32768, -6400, -3584, 255, 4095, 6911, 32767, 32767]


@pytest.mark.parametrize(
    ("xs", "ys", "line"),
    [
        (0.0003334288834594190, 0.0003334228880703449, (16387, -28106, 2, 14)),
        (0.0004299230640754104, 0.0004290565557312220, (16417, -9833, 0, 14)),
        (0.0003981658664997667, 0.0003981650224886834, (16385, -23075, 0, 14)),
    ],
)
def test_the_last_line_of_a_swish_is_computed_in_float32(xs: float, ys: float, line: tuple[int, ...]) -> None:
    """Of a YOLO11 in int16, as the original has them; in float64 their offsets are -28128, -9637 and -15412."""
    found = interpolation_tables(lambda x: swish(x, {}), xs, ys, CURVES["HzSwish"])
    assert tuple(found[name][-1] for name in ("scale", "bias", "left_shift", "right_shift")) == line


def test_the_last_line_of_a_hard_swish_has_the_offset_that_its_rounding_leaves() -> None:
    """``Mul_19`` of ``mobilenet_v3_c``."""
    found = interpolation_tables(
        lambda x: hard_swish(x, {}), 0.0007888937834650278, 0.0005451239994727075, CURVES["HzHardSwish"]
    )
    assert (found["scale"][-1], found["bias"][-1], found["right_shift"][-1]) == (23711, 7, 14)
