"""Inputs that are settings, and inputs of no elements, become constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.errors import ConfigError
from engine.frontend.fixed import fix_settings
from engine.frontend.onnx import empty_inputs, load_onnx, read_onnx
from engine.simulate import Session
from tests.engine.frontend.networks import network, saved


def detector(rate_shape: list[int | str] | None = None, state: list[int | str] | None = None) -> onnx.ModelProto:
    """y = x * rate, joined with a state of no elements where one is given."""
    nodes = [
        helper.make_node("Cast", ["sr"], ["rate"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "rate"], ["m"]),
        helper.make_node("Concat", ["m", "state"], ["y"], axis=1) if state else helper.make_node("Relu", ["m"], ["y"]),
    ]
    inputs = {"x": [1, 4], **({"state": state} if state else {})}
    model = network(nodes, inputs, ["y"])
    model.graph.input.append(helper.make_tensor_value_info("sr", TensorProto.INT64, rate_shape or []))
    return model


def test_a_scalar_setting_becomes_a_constant(tmp_path: Path) -> None:
    model = load_onnx(saved(detector(), tmp_path), fixed={"sr": (3.0,)})
    assert [value.name for value in model.graph.inputs] == ["x"]
    x = np.ones((1, 4), np.float32)
    np.testing.assert_array_equal(Session(model).run({"x": x})["y"], 3 * x)


def test_one_value_fills_a_tensor(tmp_path: Path) -> None:
    model = load_onnx(saved(detector([4]), tmp_path), fixed={"sr": (2.0,)})
    np.testing.assert_array_equal(Session(model).run({"x": np.ones((1, 4), np.float32)})["y"], [[2, 2, 2, 2]])
    model = load_onnx(saved(detector([4]), tmp_path), fixed={"sr": (1.0, 2.0, 3.0, 4.0)})
    np.testing.assert_array_equal(Session(model).run({"x": np.ones((1, 4), np.float32)})["y"], [[1, 2, 3, 4]])


def test_a_state_of_no_elements_is_none(tmp_path: Path) -> None:
    path = saved(detector(state=[1, 0]), tmp_path)
    assert empty_inputs(read_onnx(path)) == ("state",)
    model = load_onnx(path, fixed={"sr": (1.0,)})
    assert [value.name for value in model.graph.inputs] == ["x"]
    assert model.graph.outputs[0].shape == (1, 4)


def test_a_dynamic_setting_takes_its_values(tmp_path: Path) -> None:
    model = load_onnx(saved(detector(["n"]), tmp_path), fixed={"sr": (1.0, 2.0, 3.0, 4.0)})
    assert model.graph.outputs[0].shape == (1, 4)


def test_a_branch_on_a_setting_is_decided(tmp_path: Path) -> None:
    """As in a published detector of voices, which has a branch per sampling rate."""

    def branch(op_type: str) -> onnx.GraphProto:
        result = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op_type, ["x"], ["b"])], "branch", [], [result])

    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["fast"]),
        helper.make_node("If", ["fast"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg")),
    ]
    model = network(nodes, {"x": [1, 4]}, ["y"], {"rate": np.int64(16000)}, opset=11)
    model.graph.input.append(helper.make_tensor_value_info("sr", TensorProto.INT64, []))
    path = saved(model, tmp_path)
    for rate, op_type in ((16000.0, "Relu"), (8000.0, "Neg")):
        assert [node.op_type for node in load_onnx(path, fixed={"sr": (rate,)}).graph] == [op_type]


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({"srr": (1.0,)}, r"fixed_inputs names 'srr'.* did you mean 'sr'"),
        ({"sr": (1.0, 2.0)}, r"gives 2 values for 'sr', whose shape \[4\] has 4"),
        ({"sr": (1.0,), "x": (1.0,)}, "one at least must be left"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, fixed: dict[str, tuple[float, ...]], message: str) -> None:
    model = read_onnx(saved(detector([4]), tmp_path))
    with pytest.raises(ConfigError, match=message):
        fix_settings(model, fixed, {}, Path("m.onnx"))
