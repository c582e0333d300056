"""Remedies of refusals, taken out of the message and followed."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
import yaml
from onnx import TensorProto, helper

from engine.cli.named import read_fixed, read_shapes
from engine.config import load_config
from engine.convert import Draft, check
from engine.errors import ConfigError, ModelError
from engine.frontend import load_network, parse
from harness.onboarding.network_file import read_network
from tests.e2e.field_cases import prepare
from tests.engine.spelled import network


def open_network(path: Path) -> Path:
    """A network whose input has an open height and width."""
    model = network("y = Conv(x, W(8, 3, 3, 3))", 11, (1, 3, 8, 8))
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim[2:]:
            dim.Clear()
    del model.graph.value_info[:]
    onnx.save(model, path)
    return path


def test_the_shape_that_the_message_suggests_is_taken(tmp_path: Path) -> None:
    path = open_network(tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="is a dynamic shape") as caught:
        check(path, Draft("bayes-e"))
    (option,) = re.findall(r"--input-shape (\S+)", str(caught.value))
    shape = option.replace("x1x1", "x8x8")  # sizes of 1, which no 3x3 window fits into
    assert check(path, Draft("bayes-e", read_shapes([shape]))).performance.subgraphs


def test_the_line_for_the_yaml_that_the_message_suggests_is_taken(tmp_path: Path) -> None:
    config = prepare(tmp_path, "int16_concat.onnx")
    content = yaml.safe_load(config.read_text())
    content["model_parameters"]["onnx_model"] = str(open_network(tmp_path / "open.onnx"))
    config.write_text(yaml.safe_dump(content))
    with pytest.raises(ModelError, match="is a dynamic shape") as caught:
        parse(load_config(config))
    (line,) = re.findall(r"\(in YAML: input_shape: (\S+)\)", str(caught.value))
    content["input_parameters"]["input_shape"] = line.replace("x1x1", "x8x8")
    config.write_text(yaml.safe_dump(content))
    source, _ = parse(load_config(config))
    assert tuple(source.graph.inputs[0].shape or ()) == (1, 3, 8, 8)


def test_the_next_steps_for_several_inputs_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    model = network("c = Conv(x, W(4, 3, 3, 3), pads=[1, 1, 1, 1]); y = Relu(c)".replace("; ", "\n"), 11, (1, 3, 8, 8))
    model.graph.node.append(helper.make_node("Add", ["y", "state"], ["z"], name="add"))
    model.graph.input.append(helper.make_tensor_value_info("state", TensorProto.FLOAT, (1, 4, "h", 8)))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    onnx.save(model, path)
    with pytest.raises(ConfigError, match="has 2 inputs") as caught:
        read_network(path)
    text = str(caught.value)
    fixed, shapes = re.findall(r"--fix (state=0)", text)[:1], re.findall(r"--input-shape (state=[0-9x]+)", text)[:1]
    assert fixed
    assert shapes
    loaded = load_network(path, read_shapes(shapes), fixed=read_fixed(fixed))
    assert [value.name for value in loaded.graph.inputs] == ["x"]
