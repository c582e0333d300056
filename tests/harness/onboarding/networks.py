"""Small networks and folders of images for the tests of onboarding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
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


CHARACTERS = "abcdefghij"
_INKS = np.array([(127, 127, 127), *product((0, 255), (0, 128, 255), (0, 255))])[: 1 + len(CHARACTERS)]
"""Colour of the ground, which is the blank, and of each character."""


def line_reader(path: Path, blank_is_last: bool = False, steps_first: bool = False) -> Path:
    """Reads a column of colour as the character of that colour, of images in -1..1: 1x32x11, or 32x1x11."""
    inks = (np.roll(_INKS, -1, axis=0) if blank_is_last else _INKS) / 127.5 - 1
    weight = (2 * inks).reshape(-1, 3, 1, 1)
    nodes = [
        helper.make_node("AveragePool", ["image"], ["columns"], kernel_shape=[32, 4], strides=[32, 4]),
        helper.make_node("Conv", ["columns", "weight", "bias"], ["scores"]),
        helper.make_node("Squeeze", ["scores", "two"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["steps"], perm=[2, 0, 1] if steps_first else [0, 2, 1]),
    ]
    save_network(
        path,
        nodes,
        {"steps": [32, 1, 11] if steps_first else [1, 32, 11]},
        [1, 3, 32, 128],
        weight=weight,
        bias=-(inks**2).sum(axis=1),
    )
    model = onnx.load(path)
    model.graph.initializer.append(numpy_helper.from_array(np.array([2]), "two"))
    onnx.save(model, path)
    return path


def line_images(folder: Path, count: int = 24, seed: int = 0) -> Path:
    """Lines in ``lines``, their texts in ``rec_gt.txt`` as PaddleOCR has them; the folder of the images."""
    random = np.random.default_rng(seed)
    (folder / "lines").mkdir(parents=True)
    rows = []
    for index in range(count):
        text = "".join(random.choice(list(CHARACTERS), random.integers(2, 8)))
        pixels = np.full((32, 128, 3), 127, np.uint8)
        for place, character in enumerate(text):
            pixels[:, 12 * place : 12 * place + 8] = _INKS[1 + CHARACTERS.index(character)]
        Image.fromarray(pixels).save(folder / "lines" / f"{index}.png")
        rows.append(f"lines/{index}.png\t{text}")
    (folder / "rec_gt.txt").write_text("\n".join(rows))
    return folder / "lines"


def colour_segmenter(path: Path, tail: str = "") -> Path:
    """Logits of red, green, blue and gray per pixel of an image in 0..1; ``tail``: ``argmax``, ``nhwc`` or ``half``."""
    weight = np.array([[9, -6, -6], [-6, 9, -6], [-6, -6, 9], [0.5, 0.5, 0.5]], np.float32).reshape(4, 3, 1, 1)
    nodes = [helper.make_node("Conv", ["image", "weight"], ["logits"])]
    shapes: dict[str, tuple[str, list[int]]] = {
        "": ("logits", [1, 4, 32, 32]), "argmax": ("classes", [1, 32, 32]),
        "nhwc": ("last", [1, 32, 32, 4]), "half": ("small", [1, 4, 16, 16]),
    }  # fmt: skip
    nodes += {
        "": [],
        "argmax": [helper.make_node("ArgMax", ["logits"], ["classes"], axis=1, keepdims=0)],
        "nhwc": [helper.make_node("Transpose", ["logits"], ["last"], perm=[0, 2, 3, 1])],
        "half": [helper.make_node("AveragePool", ["logits"], ["small"], kernel_shape=[2, 2], strides=[2, 2])],
    }[tail]
    name, shape = shapes[tail]
    save_network(path, nodes, {name: shape}, [1, 3, 32, 32], weight=weight)
    if tail == "argmax":
        model = onnx.load(path)
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
        onnx.save(model, path)
    return path


def segmented_images(folder: Path, count: int = 20, first: int = 0, seed: int = 0) -> Path:
    """Images in ``images`` with a square of red, green or blue on gray, masks in ``masks``; classes from ``first``."""
    random = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True)
    (folder / "masks").mkdir()
    for index in range(count):
        pixels, mask = np.full((32, 32, 3), 90, np.uint8), np.full((32, 32), 3 + first, np.uint8)
        for label, colour in enumerate(COLOURS.values()):
            top, left = random.integers(0, 24, 2)
            pixels[top : top + 8, left : left + 8], mask[top : top + 8, left : left + 8] = colour, label + first
        Image.fromarray(pixels).save(folder / "images" / f"{index:02d}.png")
        Image.fromarray(mask).save(folder / "masks" / f"{index:02d}.png")
    return folder / "images"


def sound_classifier(path: Path, shape: Sequence[int | str]) -> Path:
    """Three class scores of an input ``x`` of four channels, which is no image."""
    weight = np.random.default_rng(0).normal(size=(3, 4, 1, 1))
    nodes = [
        helper.make_node("Conv", ["x", "weight"], ["map"]),
        helper.make_node("GlobalAveragePool", ["map"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["scores"]),
    ]
    return _with_inputs(path, nodes, {"x": shape}, {"scores": [None, 3]}, weight=weight)


def fusing_network(path: Path) -> Path:
    """A map of four channels of the inputs ``left`` and ``right``, both 1x3x8x8."""
    weight = np.random.default_rng(0).normal(size=(4, 3, 1, 1))
    nodes = [
        helper.make_node("Conv", ["left", "weight"], ["a"]),
        helper.make_node("Conv", ["right", "weight"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["sum"]),
    ]
    inputs = {"left": [1, 3, 8, 8], "right": [1, 3, 8, 8]}
    return _with_inputs(path, nodes, inputs, {"sum": [1, 4, 8, 8]}, weight=weight)


def _with_inputs(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[int | str]],
    outputs: dict[str, Sequence[int | None]],
    **arrays: object,
) -> Path:
    graph = helper.make_graph(
        list(nodes),
        "network",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(dims)) for name, dims in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(dims)) for name, dims in outputs.items()],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in arrays.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def array_files(folder: Path, shape: Sequence[int], count: int, seed: int = 0) -> Path:
    """``count`` files of noise, float32."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    for index in range(count):
        np.save(folder / f"{index}.npy", random.normal(size=tuple(shape)).astype(np.float32))
    return folder


def stateful(path: Path, state: list[int | str]) -> Path:
    """``y``: the sum of ``x`` and all of ``state``, times ``rate``."""
    nodes = [
        helper.make_node("ReduceSum", ["state"], ["total"], keepdims=0),
        helper.make_node("Add", ["x", "total"], ["sum"]),
        helper.make_node("Cast", ["rate"], ["factor"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["sum", "factor"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8]),
        helper.make_tensor_value_info("state", TensorProto.FLOAT, state),
        helper.make_tensor_value_info("rate", TensorProto.INT64, []),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 8, 8])]
    graph = helper.make_graph(nodes, "network", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path
