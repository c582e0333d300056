"""Devices of the nodes of a quantised graph."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from engine.compile.partition import device_of
from engine.errors import ModelError, UnsupportedError
from engine.terms import Device


def tensor(name: str, dtype: ir.DataType | None) -> ir.Value:
    return ir.Value(name=name, type=None if dtype is None else ir.TensorType(dtype), shape=ir.Shape([1, 4, 4, 8]))


def node(op_type: str, dtype: ir.DataType | None, domain: str = "") -> ir.Node:
    return ir.node(op_type, [tensor("x", dtype)], domain=domain, outputs=[tensor("y", dtype)], name="n")


def test_operators_of_the_bpu_on_integers_run_there() -> None:
    assert device_of(node("Reshape", ir.DataType.INT8)) is Device.BPU
    assert device_of(node("HzLut", ir.DataType.INT8, "horizon")) is Device.BPU


def test_floats_and_operators_that_the_bpu_does_not_have_run_on_the_cpu() -> None:
    assert device_of(node("Reshape", ir.DataType.FLOAT)) is Device.CPU
    assert device_of(node("Mod", ir.DataType.INT32)) is Device.CPU
    assert device_of(node("Reshape", ir.DataType.INT8, "somebody.else")) is Device.CPU


def test_unknown_operators_and_types_are_named() -> None:
    with pytest.raises(UnsupportedError, match="HzNothing is not known"):
        device_of(node("HzNothing", ir.DataType.INT8, "horizon"))
    with pytest.raises(ModelError, match="tensor x: its element type is unknown"):
        device_of(node("Reshape", None))
