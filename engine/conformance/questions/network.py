"""A float network of operator set 10 or 11, written node by node with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 11
IR_VERSION = 7
SAMPLES = 8
"""Calibration samples: what the original looks at together."""


class SmallNetwork:
    """Nodes and constants in the order in which they are added.

    Args:
        name: of the graph.
        shape: of the first input, ``x``, float32; more are added to :attr:`inputs`, shapes by name.
        seed: of weights and data.
        spread: what the data are multiplied by: normal numbers.
        opset: of the operators; 11, or 10 for networks whose nodes are given as that has them.
    """

    def __init__(
        self, name: str, shape: Sequence[int], seed: int | Sequence[int], spread: float = 1.0, opset: int = OPSET
    ) -> None:
        self.name, self.shape, self.opset = name, tuple(shape), opset
        self.inputs: dict[str, tuple[int, ...]] = {"x": self.shape}
        self._rng, self._spread = np.random.default_rng(seed), spread
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._outputs: list[str] = []

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result; the name of that."""
        return self.ops(op_type, 1, *inputs, **attributes)[0]

    def ops(self, op_type: str, results: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several results; their names."""
        name = f"{op_type}_{len(self._nodes)}"
        names = [name.lower() if results == 1 else f"{name.lower()}_{index}" for index in range(results)]
        self._nodes.append(helper.make_node(op_type, list(inputs), names, name, **attributes))
        return names

    def constant(self, values: Any, dtype: type[np.generic] = np.float32) -> str:
        """Add a constant; its name."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def ints(self, *values: int) -> str:
        """Add a constant of int64, shape (n,): a shape, axes or bounds."""
        return self.constant(values, np.int64)

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        """Add a constant of normal numbers."""
        return self.constant(self._rng.normal(0, scale, shape))

    def conv(
        self, x: str, given: int, made: int, kernel: int = 1, *, rank: int = 4, largest: float = 0.0, **attributes: Any
    ) -> str:
        """A convolution with bias that keeps the size of its map, unless ``pads`` or ``strides`` say otherwise.

        Args:
            x: what it reads, of ``rank`` dimensions.
            given: input channels.
            made: output channels.
            kernel: size in each direction.
            rank: of the activations, 3 or 4.
            largest: magnitude of the largest weight; 0 to leave it as it is drawn.
            attributes: of the node.
        """
        space = rank - 2
        group, dilation = attributes.get("group", 1), attributes.get("dilations", [1])[0]
        shape = (made, given // group, *[kernel] * space)
        weights = self._rng.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape)
        if largest:
            weights *= largest / np.abs(weights).max()
        attributes.setdefault("pads", [kernel // 2 * dilation] * (2 * space))
        bias = self.normal(made, scale=0.1)
        return self.op("Conv", x, self.constant(weights), bias, kernel_shape=[kernel] * space, **attributes)

    def linear(self, x: str, given: int, made: int) -> str:
        """A dense layer over the last axis, as PyTorch exports it: product, then sum with the bias."""
        product = self.op("MatMul", x, self.normal(given, made, scale=1 / np.sqrt(given)))
        return self.op("Add", product, self.normal(made, scale=0.1))

    def reshape(self, x: str, *shape: int) -> str:
        """``x`` in another shape."""
        return self.op("Reshape", x, self.ints(*shape))

    def transpose(self, x: str, *perm: int) -> str:
        """``x`` with its axes in the order ``perm``."""
        return self.op("Transpose", x, perm=list(perm))

    def enlarge(self, x: str, *shape: int, mode: str = "nearest") -> str:
        """``x`` resized to ``shape``."""
        empty = self.constant([])
        where = "asymmetric" if mode == "nearest" else "half_pixel"
        rounding = {"nearest_mode": "floor"} if mode == "nearest" else {}
        sizes = self.ints(*shape)
        return self.op("Resize", x, empty, empty, sizes, mode=mode, coordinate_transformation_mode=where, **rounding)

    def layer_norm(self, x: str, width: int) -> str:
        """A normalisation over the last axis with scale and shift, as PyTorch exports it."""
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        square = self.op("Pow", centred, self.constant(2.0))
        mean = self.op("Add", self.op("ReduceMean", square, axes=[-1]), self.constant(1e-5))
        normed = self.op("Div", centred, self.op("Sqrt", mean))
        return self.op("Add", self.op("Mul", normed, self.normal(width)), self.normal(width, scale=0.1))

    def gelu(self, x: str) -> str:
        """A Gelu by the error function, as PyTorch exports it."""
        erf = self.op("Erf", self.op("Div", x, self.constant(np.sqrt(2.0))))
        product = self.op("Mul", x, self.op("Add", erf, self.constant(1.0)))
        return self.op("Mul", product, self.constant(0.5))

    def output(self, *names: str) -> None:
        """Make tensors outputs."""
        self._outputs += names

    def model(self) -> onnx.ModelProto:
        """The network, with the shapes of its tensors.

        Raises:
            onnx.checker.ValidationError: it is not valid.
            onnx.shape_inference.InferenceError: shapes do not fit.
        """
        borders = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in self.inputs.items()]
        results = [self._result(name) for name in self._outputs]
        graph = helper.make_graph(self._nodes, self.name, borders, results, self._constants)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="ptqlab")
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(model, full_check=True)
        return model

    def _result(self, name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)

    def samples(self) -> NDArray[np.float32]:
        """Calibration data, float32, shape (8, ...): the same at every call."""
        rng = np.random.default_rng(len(self.shape) + self.shape[-1])
        return (rng.normal(size=(SAMPLES, *self.shape)) * self._spread).astype(np.float32)
