"""Writes float networks node by node, as an exporter would: normalisation is folded into the convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

OPSET = 11
IR_VERSION = 8


class Activation(StrEnum):
    """What follows a convolution."""

    NONE = "none"
    RELU = "relu"
    RELU6 = "relu6"
    SWISH = "swish"
    HARD_SWISH = "hard swish"


class Builder:
    """Collects the nodes and weights of one network; tensors are named by number.

    Args:
        name: of the graph.
        shape: of its only input, called ``image``.
        seed: of the weights, which are scaled so that activations keep their size.
    """

    def __init__(self, name: str, shape: Sequence[int], seed: int = 0) -> None:
        self.input = "image"
        self._name, self._shape = name, list(shape)
        self._rng = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def op(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Append a node; the name of its output, or a list of names where it has several."""
        number = len(self._nodes)
        names = [f"{op_type}_{number}_{index}" for index in range(outputs)]
        self._nodes.append(onnx.helper.make_node(op_type, inputs, names, f"{op_type}_{number}", **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, array: NDArray[Any]) -> str:
        """An initializer."""
        name = f"weight_{len(self._weights)}"
        self._weights.append(onnx.numpy_helper.from_array(array, name))
        return name

    def weights(self, *shape: int, fan_in: int) -> str:
        """Normally distributed float32 of variance 1 / ``fan_in``."""
        return self.constant((self._rng.normal(size=shape) / math.sqrt(fan_in)).astype(np.float32))

    def shape(self, *dims: int) -> str:
        """An int64 vector."""
        return self.constant(np.array(dims, np.int64))

    def conv(
        self,
        x: str,
        inside: int,
        outside: int,
        kernel: int = 1,
        stride: int | Sequence[int] = 1,
        activation: Activation = Activation.RELU,
        groups: int = 1,
    ) -> str:
        """A convolution with bias, padded by half its kernel."""
        strides = [stride, stride] if isinstance(stride, int) else list(stride)
        weight = self.weights(outside, inside // groups, kernel, kernel, fan_in=inside // groups * kernel * kernel)
        bias = self.constant((self._rng.normal(size=outside) * 0.1).astype(np.float32))
        pads = [kernel // 2] * 4
        y = self.op("Conv", x, weight, bias, kernel_shape=[kernel, kernel], strides=strides, pads=pads, group=groups)
        return self.activate(str(y), activation)

    def activate(self, x: str, activation: Activation) -> str:
        """``x`` behind its activation."""
        match activation:
            case Activation.NONE:
                return x
            case Activation.RELU:
                return str(self.op("Relu", x))
            case Activation.RELU6:
                return str(self.op("Clip", x, self.scalar(0.0), self.scalar(6.0)))
            case Activation.SWISH:
                return str(self.op("Mul", x, self.op("Sigmoid", x)))
            case Activation.HARD_SWISH:
                return str(self.op("Mul", x, self.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)))

    def scalar(self, value: float) -> str:
        """A float32 scalar."""
        return self.constant(np.array(value, np.float32))

    def dense(self, x: str, inside: int, outside: int) -> str:
        """``x @ weight + bias`` over the last axis."""
        product = self.op("MatMul", x, self.weights(inside, outside, fan_in=inside))
        bias = self.constant((self._rng.normal(size=outside) * 0.1).astype(np.float32))
        return str(self.op("Add", product, bias))

    def layer_norm(self, x: str, channels: int) -> str:
        """Layer normalisation over the last axis, decomposed as exporters of opset 11 write it."""
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1], keepdims=1))
        squares = self.op("Pow", centred, self.scalar(2.0))
        variance = self.op("Add", self.op("ReduceMean", squares, axes=[-1], keepdims=1), self.scalar(1e-5))
        normal = self.op("Div", centred, self.op("Sqrt", variance))
        scale = self.constant(self._rng.uniform(0.5, 1.5, channels).astype(np.float32))
        shift = self.constant((self._rng.normal(size=channels) * 0.1).astype(np.float32))
        return str(self.op("Add", self.op("Mul", normal, scale), shift))

    def gelu(self, x: str) -> str:
        """``0.5 * x * (1 + erf(x / sqrt(2)))``."""
        erf = self.op("Erf", self.op("Div", x, self.scalar(math.sqrt(2.0))))
        return str(self.op("Mul", self.op("Mul", x, self.op("Add", erf, self.scalar(1.0))), self.scalar(0.5)))

    def upsample(self, x: str, factor: int) -> str:
        """Nearest neighbours."""
        empty = self.constant(np.zeros(0, np.float32))
        scales = self.constant(np.array([1, 1, factor, factor], np.float32))
        attributes: dict[str, Any] = {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        }
        return str(self.op("Resize", x, empty, scales, **attributes))

    def classifier(self, x: str, inside: int, classes: int) -> str:
        """Global average and a dense layer."""
        flat = self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)
        bias = self.constant((self._rng.normal(size=classes) * 0.1).astype(np.float32))
        return str(self.op("Gemm", flat, self.weights(classes, inside, fan_in=inside), bias, transB=1))

    def finish(self, *outputs: str) -> onnx.ModelProto:
        """The model, shapes inferred."""
        float32 = onnx.TensorProto.FLOAT
        graph = onnx.helper.make_graph(
            self._nodes,
            self._name,
            [onnx.helper.make_tensor_value_info(self.input, float32, self._shape)],
            [onnx.helper.make_tensor_value_info(name, float32, None) for name in outputs],
            self._weights,
        )
        opsets = [onnx.helper.make_opsetid("", OPSET)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)
