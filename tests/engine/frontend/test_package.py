"""From a configuration to a source model: shapes, the nodes it ends with, where inputs come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import helper

from engine.config import Config, parse_config
from engine.errors import ConfigError
from engine.frontend import RESIZER_PIXELS, load_network, parse
from engine.ir import shape_of
from tests.configurations import FEATUREMAP
from tests.engine.frontend.networks import convolution, network, saved


def config(path: Path, source: str = "ddr", layout: str = "NCHW", **parameters: Any) -> Config:
    inputs = {**FEATUREMAP["input_parameters"], "input_layout_train": layout}
    inputs |= {key: parameters.pop(key) for key in tuple(parameters) if key.startswith("input_")}
    model = {**FEATUREMAP["model_parameters"], "onnx_model": str(path), **parameters}
    compiler = {"input_source": {parameters.pop("source_name", "x"): source}}
    content = {**FEATUREMAP, "model_parameters": model, "input_parameters": inputs, "compiler_parameters": compiler}
    return parse_config(content)


@pytest.mark.parametrize(
    ("shape", "layout", "refused"),
    [
        ((1, 3, 128, 144), "NCHW", True),
        ((1, 3, 128, 143), "NCHW", False),
        ((1, 128, 144, 3), "NHWC", True),
        ((1, 128, 143, 200), "NHWC", False),
    ],
)
def test_the_resizer_is_for_small_inputs(tmp_path: Path, shape: tuple[int, ...], layout: str, refused: bool) -> None:
    assert RESIZER_PIXELS == 128 * 144
    path = saved(network([helper.make_node("Relu", ["x"], ["y"])], {"x": shape}, ["y"]), tmp_path)
    parse(config(path, "ddr", layout))
    if refused:
        with pytest.raises(ConfigError, match="'x' has 18432 pixels, of a resizer less than 18432 are possible"):
            parse(config(path, "resizer", layout))
    else:
        assert parse(config(path, "resizer", layout))


def test_sources_are_of_inputs(tmp_path: Path) -> None:
    content = config(saved(convolution(), tmp_path))
    other = content.model_copy(
        update={"compiler_parameters": content.compiler_parameters.model_copy(update={"input_source": {"z": "ddr"}})}
    )
    with pytest.raises(ConfigError, match=r"input_source: 'z' is not an input of the model; allowed are \['x'\]"):
        parse(other)


def test_shapes_of_the_configuration_hold_for_dynamic_inputs(tmp_path: Path) -> None:
    path = saved(convolution(shape=("n", 3, "h", "w")), tmp_path)
    source, (spec,) = parse(config(path, input_shape="1x3x10x12", input_name="x"))
    assert shape_of(source.graph.inputs[0]) == (1, 3, 10, 12)
    assert spec.name == "x"


def test_a_model_ends_with_the_nodes_that_are_asked_for(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"], "first"), helper.make_node("Neg", ["a"], ["y"], "second")]
    path = saved(network(nodes, {"x": (1, 4)}, ["y"]), tmp_path)
    assert [node.name for node in parse(config(path))[0].graph] == ["first", "second"]
    source, _ = parse(config(path, output_nodes="first"))
    assert [node.name for node in source.graph] == ["first"]


def test_given_dimensions_are_replaced_on_request_only(tmp_path: Path) -> None:
    path = saved(convolution(), tmp_path)
    with pytest.raises(ConfigError, match="x"):
        load_network(path, {"x": (1, 3, 10, 10)})
    assert shape_of(load_network(path, {"x": (1, 3, 10, 10)}, resize=True).graph.inputs[0]) == (1, 3, 10, 10)
