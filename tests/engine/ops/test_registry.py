"""The registry: what it knows, and how attributes are read."""

from __future__ import annotations

import logging

import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import ModelError, UnsupportedError
from engine.ops.registry import OPERATORS, operator, read_attributes


def make_node(op_type: str, **attributes: object) -> ir.Node:
    return ir.node(op_type, [ir.Value(name="x")], attributes, domain="horizon", name="n")  # type: ignore[arg-type]  # any of the allowed kinds


def test_every_operator_is_listed_under_its_type() -> None:
    assert all(name == entry.op_type for name, entry in OPERATORS.items())
    assert len(OPERATORS) >= 29


def test_unknown_operator_is_named() -> None:
    with pytest.raises(UnsupportedError, match="horizon::HzNothing is not known"):
        operator("HzNothing")


def test_defaults_are_filled_in_and_lists_become_arrays() -> None:
    attributes = read_attributes(make_node("HzRequantize", output_scale=[5], output_right_shift=[2]))
    assert attributes["bits"] == 8
    assert attributes["output_scale"].dtype == np.int64
    assert attributes["data_format"] == "NHWC"


def test_missing_and_wrong_attributes_are_refused() -> None:
    with pytest.raises(ModelError, match="HzRequantize n: attribute output_right_shift is missing"):
        read_attributes(make_node("HzRequantize", output_scale=[5]))
    with pytest.raises(ModelError, match="attribute output_scale has kind int, expected ints"):
        read_attributes(make_node("HzRequantize", output_scale=5, output_right_shift=[2]))


def test_unknown_attribute_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read_attributes(make_node("HzLut", surprise=1))
    assert "attribute surprise is not known" in caplog.text
