"""Opset and ``ir_version`` of the original's converter."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from engine.convert.original import HB_COMPILE, HB_MAPPER
from engine.rewrite.proof import ExactOutputs
from engine.rewrite.versions import SupportedVersions
from tests.engine.rewrite.networks import HEAD, source


@pytest.mark.parametrize(
    ("text", "opset"),
    [
        ("y = HardSwish(c)", 14),
        ("y = Gelu(c)", 20),
        ("y = Mish(c)", 18),
        ("y = LayerNormalization(c, W(8), W(8))", 17),
        ("y = Squeeze(ReduceSum(c, [1]), [1])", 13),
        ("y = Resize(c, None, [1., 1., 2., 2.])", 13),
        ("y = Softmax(c, axis=1)", 13),
        ("y = ReduceMean(c, [2, 3])", 18),
    ],
)
def test_operators_are_written_as_opset_11_has_them(text: str, opset: int) -> None:
    model = source(HEAD + text, min(opset, 19) if opset != 20 else 20)
    exact = ExactOutputs.of(model)
    change = SupportedVersions(HB_MAPPER, (opset, 8))
    assert change(model).modified
    assert (model.opset_imports[""], model.ir_version) == (11, 6)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    assert exact.compare(model).equal
    assert change.places == [f"opset {opset}, ir_version 8 to opset 11, ir_version 6"]


def test_what_came_later_is_named() -> None:
    change = SupportedVersions(HB_MAPPER, (16, 8))
    assert not change(source("y = GridSample(x, W(1, 8, 8, 2))", 16)).modified
    assert "GridSample" in change.remarks[0]


def test_what_is_taken_stays() -> None:
    assert not SupportedVersions(HB_MAPPER, (11, 8))(source("y = Relu(x)", 11)).modified
    assert not SupportedVersions(HB_COMPILE, (17, 8))(source("y = Relu(x)", 17)).modified


def test_a_newer_file_format_alone() -> None:
    model = source("y = Relu(x)", 11)
    assert SupportedVersions(HB_MAPPER, (11, 10))(model).modified
    assert model.ir_version == 6
