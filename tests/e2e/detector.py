"""A YOLOv8n as its exporter writes it: heads, grids computed of shapes, distances to boxes; weights are seeded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.speed.structures.dense import BOX_BINS, CLASSES, yolov8n

SIDE = 320
STRIDES = (8, 16, 32)
CELLS = sum((SIDE // stride) ** 2 for stride in STRIDES)
BINS = BOX_BINS // 4


def exported() -> onnx.ModelProto:
    """The network with its decoder: one output of 4 box rows and a row per class, shape (1, 84, 2100)."""
    model = yolov8n()
    heads = [str(value.name) for value in model.graph.output]
    nodes, levels, anchors = [], [], []
    for level, (box, classes) in enumerate(zip(heads[::2], heads[1::2], strict=True)):
        more, flat, grid = _level(f"level{level}", box, classes)
        nodes += more
        levels.append(flat)
        anchors.append(grid)
    nodes += _decoder(levels, anchors)
    constants = {
        "zero": np.array(0),
        "two": np.array(2),
        "three": np.array(3),
        "zero_f": np.float32(0),
        "one_f": np.float32(1),
        "half": np.float32(0.5),
        "rows": np.array([BOX_BINS + CLASSES, -1]),
        "as_row": np.array([1, 1, 1, -1]),
        "as_column": np.array([1, 1, -1, 1]),
        "as_cells": np.array([1, 1, -1]),
        "as_bins": np.array([1, 4, BINS, CELLS]),
        "as_boxes": np.array([1, 4, CELLS]),
        "bins": np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1),
        "strides": np.concatenate([np.full((SIDE // s) ** 2, s, np.float32) for s in STRIDES])[None, None],
    }
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()
    )
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("found", TensorProto.FLOAT, (1, 4 + CLASSES, CELLS)))
    onnx.checker.check_model(model)
    return model


def _level(name: str, box: str, classes: str) -> tuple[list[onnx.NodeProto], str, str]:
    """A head's maps as rows, and the centres of its cells; the sizes of both are read from the map."""

    def node(kind: str, inputs: Sequence[str], output: str, **attributes: object) -> onnx.NodeProto:
        return helper.make_node(kind, inputs, [f"{name}.{output}"], f"{name}.{output}", **attributes)

    def own(*outputs: str) -> list[str]:
        return [f"{name}.{output}" for output in outputs]

    nodes = [
        node("Shape", [box], "shape"),
        node("Gather", [*own("shape"), "zero"], "batch"),
        node("Gather", [*own("shape"), "two"], "height"),
        node("Gather", [*own("shape"), "three"], "width"),
        node("Unsqueeze", own("batch"), "batch1", axes=[0]),
        node("Concat", [*own("batch1"), "rows"], "target", axis=0),
        node("Concat", [box, classes], "both", axis=1),
        node("Reshape", own("both", "target"), "flat"),
    ]
    for side, shaped in (("width", "as_row"), ("height", "as_column")):
        nodes += [
            node("Cast", own(side), f"{side}_f", to=TensorProto.FLOAT),
            node("Range", ["zero_f", *own(f"{side}_f"), "one_f"], f"{side}_range"),
            node("Add", [*own(f"{side}_range"), "half"], f"{side}_centre"),
            node("Reshape", [*own(f"{side}_centre"), shaped], f"{side}_shaped"),
        ]
    nodes += [
        node("Unsqueeze", own("height"), "height1", axes=[0]),
        node("Unsqueeze", own("width"), "width1", axes=[0]),
        node("Concat", own("height1", "width1"), "size", axis=0),
        *(
            each
            for side in ("width", "height")
            for each in (
                node("Expand", own(f"{side}_shaped", "size"), f"{side}_grid"),
                node("Reshape", [*own(f"{side}_grid"), "as_cells"], f"{side}_cells"),
            )
        ),
        node("Concat", own("width_cells", "height_cells"), "anchors", axis=1),
    ]
    return nodes, f"{name}.flat", f"{name}.anchors"


def _decoder(levels: Sequence[str], anchors: Sequence[str]) -> list[onnx.NodeProto]:
    node = helper.make_node
    return [
        node("Concat", levels, ["all"], "all", axis=2),
        node("Concat", anchors, ["centres"], "centres", axis=2),
        node("Split", ["all"], ["distances", "classes"], "parts_of_rows", axis=1, split=[BOX_BINS, CLASSES]),
        node("Reshape", ["distances", "as_bins"], ["binned"], "binned"),
        node("Transpose", ["binned"], ["bins_last"], "bins_last", perm=[0, 3, 1, 2]),
        node("Softmax", ["bins_last"], ["shares_last"], "shares_last", axis=3),
        node("Transpose", ["shares_last"], ["shares"], "shares", perm=[0, 3, 2, 1]),
        node("Conv", ["shares", "bins"], ["mean"], "mean_of_bins"),
        node("Reshape", ["mean", "as_boxes"], ["sides_of_boxes"], "sides_of_boxes"),
        node("Split", ["sides_of_boxes"], ["to_first", "to_last"], "corners", axis=1, split=[2, 2]),
        node("Sub", ["centres", "to_first"], ["first"], "first"),
        node("Add", ["centres", "to_last"], ["last"], "last"),
        node("Add", ["first", "last"], ["sum"], "sum"),
        node("Mul", ["sum", "half"], ["middle"], "middle"),
        node("Sub", ["last", "first"], ["extent"], "extent"),
        node("Concat", ["middle", "extent"], ["boxes"], "boxes", axis=1),
        node("Mul", ["boxes", "strides"], ["pixels"], "pixels"),
        node("Sigmoid", ["classes"], ["scores"], "scores"),
        node("Concat", ["pixels", "scores"], ["found"], "found", axis=1),
    ]
