"""Conversions with ``node_info`` and its older forms, from the configuration to the integer model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import helper

from engine.config import parse_config
from engine.convert import ConversionResult, convert
from tests.configurations import FEATUREMAP
from tests.engine.optimize.equivalence import build

SHAPE = (1, 4, 8, 8)


@pytest.fixture(autouse=True)
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    rng = np.random.default_rng(0)
    for index in range(4):
        rng.standard_normal(SHAPE, np.float32).tofile(tmp_path / "data" / f"{index}.bin")


def weight(outputs: int = 4, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal((outputs, *(shape or (4, 1, 1))), np.float32)


def converted(
    nodes: Sequence[onnx.NodeProto],
    constants: dict[str, NDArray[Any]],
    model: dict[str, Any] | None = None,
    calibration: dict[str, Any] | None = None,
    outputs: Sequence[str] = ("y",),
) -> ConversionResult:
    """The conversion of the network that takes ``x`` of :data:`SHAPE`."""
    ir.save(build(nodes, {"x": SHAPE}, list(outputs), constants), "m.onnx")
    groups = {name: dict(group) for name, group in FEATUREMAP.items()}
    groups["model_parameters"] |= model or {}
    groups["calibration_parameters"] |= calibration or {}
    return convert(parse_config(groups))


def data_types(result: ConversionResult) -> dict[str, str]:
    return {row.node: row.data_type for row in result.nodes}


@pytest.mark.parametrize(
    ("info", "width"),
    [({"ON": "BPU"}, "int8"), ({"ON": "BPU", "InputType": "int16"}, "int16"), ({"InputType": "int16"}, "int16")],
)
def test_a_softmax_on_the_bpu_is_calibrated_on_data(info: dict[str, str], width: str) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Softmax", ["c"], ["y"], "softmax", axis=3),
    ]
    result = converted(nodes, {"w": weight()}, {"node_info": {"softmax": info}})
    asked = "ON" in info
    (row, *_) = [row for row in result.nodes if row.node.startswith("softmax")]
    assert (row.on, row.type) == (("BPU", "HzQuantizedReduceMax") if asked else ("CPU", "Softmax"))
    assert row.data_type == (width if asked else "float")
    assert [refusal.node for refusal in result.refusals] == ([] if asked else ["softmax"])
    assert all(row.cosine is not None and row.cosine > 0.999 for row in result.nodes)
    assert result.integer_outputs[0].distance.cosine > 0.999
