"""The bundled files are exports of these architectures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import pytest

pytest.importorskip("torch", reason="training needs the extra zoo")

import torch

from harness.zoo.cards import list_cards
from harness.zoo.training.networks import LeNet, ResidualBlock, UNet, Yolo, conv_bn
from harness.zoo.training.recipes import RECIPES
from harness.zoo.training.training import exported

FILES = {card.name: card.model_path() for card in list_cards() if card.source.bundled}


def structure(model: onnx.ModelProto) -> tuple[list[tuple[str, str]], Counter[tuple[int, ...]]]:
    """Operators with their attributes in order, shapes of the weights; untrained layers share biases."""
    nodes = [
        (node.op_type, str(sorted(str(attribute) for attribute in node.attribute if attribute.name != "value")))
        for node in model.graph.node
        if node.op_type not in ("Constant", "Identity")
    ]
    return nodes, Counter(tuple(tensor.dims) for tensor in model.graph.initializer if len(tensor.dims) > 1)


@pytest.mark.parametrize("name", RECIPES)
def test_the_bundled_file_has_the_structure_of_its_network(name: str) -> None:
    made = onnx.load_from_string(exported(RECIPES[name].network().eval(), RECIPES[name]))
    assert structure(made) == structure(onnx.load(Path(FILES[name])))


def test_a_convolution_keeps_the_size_at_stride_one() -> None:
    for kernel, stride, side in ((1, 1, 9), (3, 1, 9), (5, 1, 9), (3, 2, 5)):
        assert conv_bn(4, 8, kernel, torch.nn.ReLU(), stride, 2)(torch.zeros(1, 4, 9, 9)).shape == (1, 8, side, side)


@pytest.mark.parametrize(("inputs", "outputs", "stride", "projected"), [(4, 4, 1, 0), (4, 4, 2, 1), (4, 8, 1, 1)])
def test_a_shortcut_is_projected_where_shapes_differ(inputs: int, outputs: int, stride: int, projected: int) -> None:
    block = ResidualBlock(inputs, outputs, stride)
    assert sum(isinstance(part, torch.nn.Conv2d) for part in block.shortcut.modules()) == projected
    assert block(torch.zeros(1, inputs, 8, 8)).shape == (1, outputs, 8 // stride, 8 // stride)


def test_outputs() -> None:
    assert LeNet()(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    fine, coarse = Yolo(anchors=3, classes=4)(torch.zeros(1, 3, 96, 96))
    assert (fine.shape, coarse.shape) == ((1, 27, 12, 12), (1, 27, 6, 6))
    assert UNet(classes=5)(torch.zeros(1, 3, 96, 96)).shape == (1, 5, 96, 96)
