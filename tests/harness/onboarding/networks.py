"""Small networks and folders of images for the tests of onboarding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from harness.datasets import open_dataset
from harness.zoo.cards import load_card

SIDE = 16
COLOURS = {"0": (200, 40, 40), "1": (40, 200, 40), "2": (40, 40, 200)}
"""Images of each class, by the folder's name."""


def save_network(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    outputs: dict[str, Sequence[int]],
    shape: Sequence[int | str],
    **arrays: object,
) -> Path:
    """A network with input ``image``; ``arrays`` are its constants."""
    graph = helper.make_graph(
        list(nodes),
        "network",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(dims)) for name, dims in outputs.items()],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in arrays.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def colour_classifier(path: Path, channels: Sequence[int] = (0, 1, 2), side: int = SIDE) -> Path:
    """Scores of red, green and blue: means of the channels of an image in 0..1 (``channels`` says which is which)."""
    weight = np.zeros((3, 3, 1, 1), np.float32)
    for label, channel in enumerate(channels):
        weight[label, channel] = 12
    nodes = [
        helper.make_node("Conv", ["image", "weight"], ["map"]),
        helper.make_node("GlobalAveragePool", ["map"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["scores"]),
    ]
    return save_network(path, nodes, {"scores": [1, 3]}, [1, 3, side, side], weight=weight)


def colour_images(folder: Path, each: int = 8, seed: int = 0) -> Path:
    """A folder per colour with noisy images of it."""
    random = np.random.default_rng(seed)
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for index in range(each):
            pixels = np.clip(np.array(colour) + random.integers(-30, 31, (SIDE + 4, SIDE + 2, 3)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{index}.png")
    return folder


def digit_network() -> Path:
    """The bundled LeNet."""
    return load_card("mnist_lenet").model_path()


def digit_images(folder: Path, count: int = 80) -> Path:
    """Images of MNIST, a folder per digit."""
    split = open_dataset("mnist").split("evaluation")
    for index, (image, label) in enumerate(
        zip(split.images(0, count), np.asarray(split.targets(0, count)), strict=True)
    ):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[..., 0]).save(folder / str(label) / f"{index}.png")
    return folder
