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


def scene_detector(path: Path) -> Path:
    """The bundled detector of scenes with YOLOv5's decoding behind it: one output, 1x360x15."""
    card = load_card("scene_yolo")
    model = onnx.load(card.model_path())
    nodes, rows = [], []
    constants: dict[str, np.ndarray] = {"two": np.float32(2), "half": np.float32(0.5)}
    for index, (head, output) in enumerate(zip(card.metric.options["heads"], model.graph.output, strict=True)):
        name, side, stride = f"h{index}", 96 // head["stride"], head["stride"]
        columns, lines = np.meshgrid(np.arange(side), np.arange(side))
        constants |= {
            f"{name}_shape": np.array([1, 2, 15, side, side]),
            f"{name}_grid": np.stack([columns, lines], axis=-1).astype(np.float32),
            f"{name}_stride": np.float32(stride),
            f"{name}_anchors": np.reshape(head["anchors"], (1, 2, 1, 1, 2)).astype(np.float32),
            f"{name}_flat": np.array([1, -1, 15]),
            f"{name}_parts": np.array([2, 2, 11]),
        }
        nodes += [
            helper.make_node("Reshape", [output.name, f"{name}_shape"], [f"{name}_a"]),
            helper.make_node("Transpose", [f"{name}_a"], [f"{name}_b"], perm=[0, 1, 3, 4, 2]),
            helper.make_node("Sigmoid", [f"{name}_b"], [f"{name}_c"]),
            helper.make_node(
                "Split", [f"{name}_c", f"{name}_parts"], [f"{name}_xy", f"{name}_wh", f"{name}_s"], axis=4
            ),
            helper.make_node("Mul", [f"{name}_xy", "two"], [f"{name}_d"]),
            helper.make_node("Sub", [f"{name}_d", "half"], [f"{name}_e"]),
            helper.make_node("Add", [f"{name}_e", f"{name}_grid"], [f"{name}_f"]),
            helper.make_node("Mul", [f"{name}_f", f"{name}_stride"], [f"{name}_g"]),
            helper.make_node("Mul", [f"{name}_wh", "two"], [f"{name}_h"]),
            helper.make_node("Mul", [f"{name}_h", f"{name}_h"], [f"{name}_i"]),
            helper.make_node("Mul", [f"{name}_i", f"{name}_anchors"], [f"{name}_j"]),
            helper.make_node("Concat", [f"{name}_g", f"{name}_j", f"{name}_s"], [f"{name}_k"], axis=4),
            helper.make_node("Reshape", [f"{name}_k", f"{name}_flat"], [f"{name}_rows"]),
        ]
        rows.append(f"{name}_rows")
    nodes.append(helper.make_node("Concat", rows, ["output0"], axis=1))
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items())
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 360, 15]))
    onnx.save(model, path)
    return path


def scene_images(folder: Path, count: int = 32) -> Path:
    """Scenes in ``images``, boxes in ``labels`` as YOLO has them; the folder of the images."""
    split = open_dataset("scenes").split("evaluation")
    (folder / "images").mkdir(parents=True)
    (folder / "labels").mkdir()
    for index, (image, scene) in enumerate(zip(split.images(0, count), split.targets(0, count), strict=True)):
        Image.fromarray(image).save(folder / "images" / f"{index:03d}.png")
        lines = []
        for (left, top, right, bottom), label in zip(scene.boxes / 96, scene.classes, strict=True):  # type: ignore[union-attr]
            lines.append(f"{label} {(left + right) / 2} {(top + bottom) / 2} {right - left} {bottom - top}")
        (folder / "labels" / f"{index:03d}.txt").write_text("\n".join(lines))
    return folder / "images"
