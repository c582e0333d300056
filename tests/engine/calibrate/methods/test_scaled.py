"""One session for all thresholds computes what a model of each computes, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import helper

from engine.calibrate.methods.scaled import ScaledSession
from engine.calibrate.methods.thresholds import apply_thresholds
from engine.floats.float_model import FloatSession
from engine.graph.scales import change_scale_source
from engine.ir import shape_of
from engine.ops.foreign.custom_registry import op_implement_register
from tests.engine.calibrate.models import add_calibration, graph, residual

Array = NDArray[Any]
ACTIVATIONS = ("x", "c0", "r0", "c1")
SHAPE = (1, 3, 6, 5)


@op_implement_register("TestTwice")
def twice(x: Array) -> list[Array]:
    return [2 * x]


def placed_residual(opset: int = 13, **attributes: Any) -> ir.Model:
    """Every tensor calibrated, ``attributes`` holding for ``r0``."""
    model = residual(opset)
    for name in (*ACTIVATIONS, "w0", "w1"):
        add_calibration(model, name, **attributes if name == "r0" else {})
    return model


def check(model: ir.Model, names: tuple[str, ...], unsigned: tuple[str, ...] = (), threads: int | None = None) -> None:
    """Several thresholds on three samples."""
    rng = np.random.default_rng(5)
    feed = {
        str(value.name): rng.standard_normal((3 * shape_of(value)[0], *shape_of(value)[1:]), np.float32)
        for value in model.graph.inputs
    }
    session = ScaledSession(model, unsigned, threads=threads)
    for _ in range(3):
        thresholds = {name: (float(np.float32(rng.uniform(0.3, 4))),) for name in names}
        wanted = FloatSession(apply_thresholds(model, thresholds, unsigned=unsigned)).run(feed)
        found = session.run(feed, 3, thresholds)
        assert found.keys() == wanted.keys()
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array)
        assert any(np.ptp(array) > 0 for array in wanted.values())


@pytest.mark.parametrize("opset", [9, 10, 13])
@pytest.mark.parametrize("attributes", [{}, {"qtype": "int16"}, {"switch": "OFF"}])
def test_thresholds_of_any_type(opset: int, attributes: dict[str, Any]) -> None:
    check(placed_residual(opset, **attributes), ACTIVATIONS)


@pytest.mark.parametrize("threads", [None, 1])
def test_unsigned_tensors(threads: int | None) -> None:
    check(placed_residual(), ACTIVATIONS, unsigned=("r0",), threads=threads)


def test_fixed_and_tied_thresholds() -> None:
    model = placed_residual()
    calibrations = {str(node.name): node for node in model.graph}
    change_scale_source(calibrations["x_HzCalibration"], fixed=1.0)
    change_scale_source(calibrations["c1_HzCalibration"], of="c0")
    check(model, ("c0", "r0"))


@pytest.mark.parametrize("opset", [9, 13])
def test_constants_that_are_tied_to_a_tensor(opset: int) -> None:
    constant = {"k": np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)}
    model = graph([helper.make_node("Add", ["x", "k"], ["y"], name="add")], {"x": SHAPE}, ["y"], constant, opset)
    add_calibration(model, "x")
    node = add_calibration(model, "k", quant_attrs=next(iter(model.graph)).attributes["quant_attrs"].value)
    change_scale_source(node, of="x")
    check(model, ("x",))


def test_fixed_batches() -> None:
    nodes = [helper.make_node("Abs", ["x"], ["t"], name="abs"), helper.make_node("Neg", ["t"], ["y"], name="neg")]
    model = graph(nodes, {"x": (4, 3)}, ["y"])
    add_calibration(model, "x")
    add_calibration(model, "t", qtype="int16")
    check(model, ("x", "t"))


def test_custom_operators() -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["t"], name="abs"),
        helper.make_node("PyOp", ["t"], ["u"], name="custom", domain="horizon.custom", class_name="TestTwice"),
        helper.make_node("Add", ["u", "z"], ["y"], name="add"),
    ]
    model = graph(nodes[:1], {"x": SHAPE, "z": SHAPE}, ["t"])
    t = model.graph.outputs[0]
    custom, last = (ir.from_proto(node) for node in nodes[1:])
    custom.replace_input_with(0, t)
    last.replace_input_with(0, custom.outputs[0])
    last.replace_input_with(1, model.graph.inputs[1])
    for node in (custom, last):
        node.outputs[0].type, node.outputs[0].shape = t.type, t.shape
        model.graph.append(node)
    model.graph.outputs[:] = [last.outputs[0]]
    model.opset_imports["horizon.custom"] = 1
    for name in ("x", "z", "t", "u"):
        add_calibration(model, name)
    check(model, ("x", "z", "t", "u"))


def test_channels_are_multiplied_where_they_are_quantised() -> None:
    """The integers of each channel are those of its own scale, and what reads it sees the channel again."""
    model = graph([helper.make_node("Relu", ["x"], ["y"], name="last")], {"x": SHAPE}, ["y"], {})
    add_calibration(model, "x")
    factors = np.float32([1, 4, 2])
    feed = {"x": np.random.default_rng(3).uniform(0, 1, SHAPE).astype(np.float32) / factors.reshape(1, 3, 1, 1)}
    session = ScaledSession(model, factors={"x": factors})
    (found,) = session.run(feed, 1, {"x": (1.0,)}).values()
    steps = (np.float32(1 / 127) / factors).reshape(1, 3, 1, 1)
    np.testing.assert_allclose(found, np.rint(feed["x"] / steps) * steps, rtol=1e-5)
    (plain,) = ScaledSession(model).run(feed, 1, {"x": (1.0,)}).values()
    assert np.abs(plain - feed["x"]).max() > 2 * np.abs(found - feed["x"])[:, 1:].max()
