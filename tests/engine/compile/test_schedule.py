"""What a schedule knows of the borders of its subgraph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from pydantic import ValidationError

from engine.compile.layers import Layer
from engine.compile.schedule import Schedule
from engine.convert import Draft, check


def schedules(path: Path, march: str, nodes: list[onnx.NodeProto]) -> tuple[Schedule, ...]:
    weight = np.random.default_rng(0).normal(size=(8, 8, 1, 1)).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 8, 12, 12))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7), path)
    return check(path, Draft(march)).compiled.schedules


@pytest.mark.parametrize("march", ["bernoulli2", "bayes-e"])
def test_what_the_cpu_computes_is_inner_and_what_enters_is_not(march: str, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first"),
        helper.make_node("Softmax", ["a"], ["s"], "softmax", axis=1),
        helper.make_node("Conv", ["s", "w"], ["y"], "last"),
    ]
    found = schedules(tmp_path / "m.onnx", march, nodes)
    assert [[tensor.inner for tensor in schedule.inputs] for schedule in found] == [[False], [True]]


@pytest.mark.parametrize("march", ["bernoulli2", "bayes-e"])
def test_results_that_become_nchw_are_planar(march: str, tmp_path: Path) -> None:
    """A model's output is NCHW, be it dequantised before or after; what stays NHWC for a Reshape is not."""
    conv = helper.make_node("Conv", ["x", "w"], ["y"], "conv")
    assert schedules(tmp_path / "m.onnx", march, [conv])[-1].layers[-1].planar
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv"),
        helper.make_node("Transpose", ["a"], ["y"], "turn", perm=[0, 2, 3, 1]),
    ]
    assert not schedules(tmp_path / "n.onnx", march, nodes)[-1].layers[-1].planar


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": [[0, 99]]}, r"groups: \[0, 99\]: there are \d+ layers"),
        ({"groups": [[-1]]}, "layers"),
        ({"relaid": {"x": 1 << 60}}, "less than or equal to"),
    ],
)
def test_a_schedule_of_a_file_fits_itself(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["y"], "conv")
    (schedule,) = schedules(tmp_path / "m.onnx", "bayes-e", [conv])
    content = schedule.model_dump(mode="json")
    assert Schedule.model_validate(content) == schedule
    with pytest.raises(ValidationError, match=message):
        Schedule.model_validate({**content, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"macs": 1 << 70}, "macs"),
        ({"weight_bytes": -1}, "weight_bytes"),
        ({"output_shape": [1 << 20, 1 << 20]}, "more than 2147483648 elements"),
        ({"input_shapes": [[-1, 2]]}, "input_shapes"),
        ({"strides": [0, 1]}, "strides"),
        ({"kernel": [1 << 40, 1]}, "kernel"),
        ({"group": 0}, "group"),
        ({"input_bits": 0}, "input_bits"),
    ],
)
def test_a_layer_of_a_file_is_of_this_world(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["y"], "conv")
    (schedule,) = schedules(tmp_path / "m.onnx", "bayes-e", [conv])
    layer = schedule.layers[0].model_dump(mode="json")
    with pytest.raises(ValidationError, match=message):
        Layer.model_validate({**layer, **changes})


def test_the_number_of_layers_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], "one"), helper.make_node("Conv", ["a", "w"], ["y"], "two")]
    (schedule,) = schedules(tmp_path / "m.onnx", "bayes-e", nodes)
    content = schedule.model_dump(mode="json")
    monkeypatch.setenv("PTQLAB_MAX_SCHEDULE_LAYERS", "1")
    with pytest.raises(ValidationError, match="layers: more than 1 layers of a schedule"):
        Schedule.model_validate(content)
