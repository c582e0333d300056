"""A network with custom operators, and the file that registers them as users write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

SHAPE = (1, 3, 8, 8)
FILE = "sample_custom.py"

SOURCE = """
import numpy as np
from horizon_nn.custom import op_implement_register, op_shape_infer_register

import shrinking


@op_implement_register("CustomShrink")
class Shrink(object):
    def __init__(self, bias, lambd=0.5):
        self._bias = bias
        self._lambd = lambd

    def compute(self, X):
        return shrinking.shrink(X, self._bias, self._lambd)


@op_shape_infer_register("CustomShrink")
def infer_shape(inputs_shape):
    return inputs_shape


@op_implement_register("CustomHalves")
def halves(X):
    return np.split(X.astype(np.float64), 2, axis=1)
"""

HELPER = """
import numpy as np


def shrink(x, bias, lambd):
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))
"""


def write_files(folder: Path) -> None:
    """The file that registers ``CustomShrink`` and ``CustomHalves``, and a module that it imports."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(SOURCE)
    (folder / "shrinking.py").write_text(HELPER)


def network() -> onnx.ModelProto:
    """conv0, PyOp, conv1, relu, a node by its own name, a node with two outputs, a sum with what the PyOp gave, conv2.

    The second and the third operator have what the exporters of users write: another domain, and none.
    """
    rng = np.random.default_rng(0)
    constants: dict[str, NDArray[np.float32]] = {
        name: (rng.standard_normal(shape) * 0.2).astype(np.float32)
        for name, shape in {"w0": (8, 3, 3, 3), "w1": (8, 8, 3, 3), "w2": (4, 4, 1, 1)}.items()
    }
    pyop: dict[str, Any] = {
        "class_name": "Shrink",
        "module": "sample_custom",
        "compute": "compute",
        "input_types": [TensorProto.FLOAT],
        "output_types": [TensorProto.FLOAT],
        "output_shape": ["1, 8, 8, 8"],
        "bias": 0.25,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], "conv0", pads=[1, 1, 1, 1]),
        helper.make_node("PyOp", ["a"], ["b"], "shrink0", domain="horizon.custom", **pyop),
        helper.make_node("Conv", ["b", "w1"], ["c"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["d"], "relu1"),
        helper.make_node("CustomShrink", ["d"], ["e"], "shrink1", domain="user", bias=0.1, lambd=0.2),
        helper.make_node("Add", ["e", "b"], ["f"], "add"),
        helper.make_node("CustomHalves", ["f"], ["g", "h"], "halves"),
        helper.make_node("Conv", ["g", "w2"], ["y"], "conv2"),
    ]
    graph = helper.make_graph(
        nodes,
        "custom",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4, 8, 8)) for name in ("y", "h")],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 11), helper.make_opsetid("horizon.custom", 1), helper.make_opsetid("user", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
