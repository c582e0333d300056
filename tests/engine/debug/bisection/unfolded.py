"""A network as exporters write detectors: a grid computed from the shape of a map, and shapes put together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = 8
"""Height and width of its input."""


def save(path: Path) -> Path:
    """Write the network to ``path``; what is computed of shapes alone has no static shape itself."""
    random = np.random.RandomState(0)
    node = helper.make_node
    nodes = [
        node("Conv", ["image", "w"], ["c"], "conv", pads=[1] * 4),
        node("Relu", ["c"], ["r"], "relu"),
        node("Conv", ["r", "w2"], ["d"], "conv2"),
        node("Shape", ["d"], ["shape"], "shape"),
        node("Gather", ["shape", "two"], ["height"], "height"),
        node("Gather", ["shape", "zero"], ["batch"], "batch"),
        node("Cast", ["height"], ["height_f"], "cast", to=TensorProto.FLOAT),
        node("Range", ["zero_f", "height_f", "one_f"], ["range"], "range"),
        node("Add", ["range", "half"], ["grid"], "grid"),
        node("Reshape", ["grid", "column"], ["grid4"], "grid4"),
        node("Add", ["d", "grid4"], ["moved"], "moved"),
        node("Unsqueeze", ["batch", "axis"], ["batch1"], "unsqueeze"),
        node("Concat", ["batch1", "rest"], ["target"], "target", axis=0),
        node("Reshape", ["moved", "target"], ["out"], "flat"),
    ]
    constants = {
        "w": random.standard_normal((4, 3, 3, 3)).astype(np.float32) * np.float32(0.2),
        "w2": random.standard_normal((4, 4, 1, 1)).astype(np.float32),
        "two": np.array(2),
        "zero": np.array(0),
        "zero_f": np.float32(0),
        "one_f": np.float32(1),
        "half": np.float32(0.5),
        "column": np.array([1, 1, -1, 1]),
        "axis": np.array([0]),
        "rest": np.array([4, -1]),
    }
    graph = helper.make_graph(
        nodes,
        "unfolded",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path
