"""``output_nodes`` cuts a model, ``layer_out_dump`` shows its inner maps without changing what it gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.config import parse_config
from engine.convert import ConversionResult, convert
from engine.errors import ConfigError
from engine.frontend.onnx import load_onnx
from engine.frontend.outputs import cut, with_outputs
from engine.simulate import Session
from engine.simulate.tensors import random_feed
from harness.zoo.cards import load_card
from tests.card_images import trained
from tests.configurations import of_card

CARD = load_card("mnist_resnet8")


@pytest.fixture
def calibration(tmp_path: Path) -> Path:
    folder = tmp_path / "calibration"
    folder.mkdir()
    images = trained(CARD, CARD.open_dataset().split("calibration").images(0, 4))
    for index, image in enumerate(images):
        np.save(folder / f"{index}.npy", image[None])
    return folder


def converted(folder: Path, calibration: Path, **parameters: Any) -> ConversionResult:
    return convert(parse_config(of_card(CARD, calibration, working_dir=str(folder), **parameters)))


def test_every_inner_map_becomes_an_output_and_the_own_ones_stay(tmp_path: Path, calibration: Path) -> None:
    plain = converted(tmp_path / "plain", calibration)
    dumped = converted(tmp_path / "dumped", calibration, layer_out_dump=True)
    first, second = (Session(result.models["quantized"]) for result in (plain, dumped))
    feed = random_feed(first.inputs, 2)
    expected, found = first.run(feed), second.run(feed)
    assert list(found)[: len(expected)] == list(expected)
    assert len(found) > len(expected) + 5
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
    assert all(row.distance.cosine > 0.9 for row in dumped.outputs)
    assert Session(dumped.files["bin"]).run(feed).keys() == found.keys()


def test_a_conversion_ends_at_the_named_nodes(tmp_path: Path, calibration: Path) -> None:
    names = [str(node.name) for node in load_onnx(CARD.model_path()).graph if node.op_type == "Conv"]
    result = converted(tmp_path / "cut", calibration, output_nodes=";".join(names[1:3]))
    outputs = [value.name for value in result.models["quantized"].graph.outputs]
    source = {str(node.name): node.outputs[0].name for node in load_onnx(CARD.model_path()).graph}
    assert outputs == [source[name] for name in names[1:3]]
    assert [row.name for row in result.outputs] == outputs


def test_unknown_nodes_are_named() -> None:
    model = load_onnx(CARD.model_path())
    name = str(next(iter(model.graph)).name)
    with pytest.raises(ConfigError, match="did you mean"):
        cut(model, [name + "x"])


def test_own_outputs_come_first_and_once() -> None:
    model = load_onnx(CARD.model_path())
    own = str(model.graph.outputs[0].name)
    inner = str(next(iter(model.graph)).outputs[0].name)
    assert [value.name for value in with_outputs(model, [own, inner]).graph.outputs] == [own, inner]
    assert [value.name for value in model.graph.outputs] == [own]
