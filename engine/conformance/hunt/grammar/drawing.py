"""A network that grows block by block: it knows the shape of every tensor, and its draws are decided by a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, TypeProto, defs, helper, shape_inference

from engine.conformance.questions.network import SAMPLES, SmallNetwork

Choice = TypeVar("Choice")

END = 1 << 31
"""As the end of a Slice: up to the last element, as PyTorch writes it."""
_ACTIVATIONS = {
    "relu": 30,
    "silu": 22,
    "hard_swish": 10,
    "relu6": 10,
    "leaky_relu": 8,
    "gelu": 6,
    "prelu": 4,
    "mish": 3,
    "elu": 2,
    "tanh": 2,
    "sigmoid": 1,
}
"""Activations behind convolutions, with how often each is drawn out of 98."""


class Drawing(SmallNetwork):
    """Blocks call its methods; every network has one activation, one spelling of normalisation and one operator set.

    Args:
        name: of the graph.
        shape: of the first input, ``x``.
        seed: of structure, weights and data.

    Attributes:
        rng: decides the structure.
        blocks: names of what was drawn, in order.
        activation: behind convolutions.
        unfolded: whether convolutions have a BatchNormalization behind them.
        uneven: how much the channels of a convolution differ in magnitude, standard deviation of a logarithm.
    """

    def __init__(self, name: str, shape: Sequence[int], seed: Sequence[int]) -> None:
        self.rng = random.Random("-".join(map(str, seed)))
        super().__init__(name, shape, seed, opset=self.rng.choice((10, 11, 11, 11)))
        self.blocks: list[str] = []
        self.activation = self.rng.choices(list(_ACTIVATIONS), list(_ACTIVATIONS.values()))[0]
        self.unfolded = self.rng.random() < 0.15
        self.uneven = self.rng.choice((0.0, 0.3, 0.7))
        self._types: dict[str, TypeProto] = {"x": helper.make_tensor_type_proto(TensorProto.FLOAT, shape)}
        self._values: dict[str, TensorProto] = {}

    def input(self, name: str, *shape: int) -> str:
        """Add an input."""
        self.inputs[name] = shape
        self._types[name] = helper.make_tensor_type_proto(TensorProto.FLOAT, shape)
        return name

    def dims(self, x: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return tuple(dim.dim_value for dim in self._types[x].tensor_type.shape.dim)

    def channels(self, x: str) -> int:
        """Extent of axis 1."""
        return self.dims(x)[1]

    def size(self, x: str) -> tuple[int, int]:
        """Rows and columns of a map."""
        return self.dims(x)[2], self.dims(x)[3]

    def pick(self, *choices: Choice) -> Choice:
        """One of ``choices``."""
        return self.rng.choice(choices)

    def chance(self, probability: float) -> bool:
        """True with ``probability``."""
        return self.rng.random() < probability

    def ops(self, op_type: str, results: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several results; their names.

        Raises:
            onnx.shape_inference.InferenceError: its shapes do not fit.
        """
        names = super().ops(op_type, results, *inputs, **attributes)
        node = self._nodes[-1]
        known = {name: self._types[name] for name in inputs if name}
        values = {name: self._values[name] for name in known if name in self._values}
        found = shape_inference.infer_node_outputs(
            defs.get_schema(op_type, self.opset, ""),
            node,
            known,
            values,
            opset_imports=[helper.make_opsetid("", self.opset)],
        )
        self._types.update({name: found[name] for name in names if name in found})
        return names

    def constant(self, values: Any, dtype: type[np.generic] = np.float32) -> str:
        """Add a constant; its name."""
        name = super().constant(values, dtype)
        tensor = self._constants[-1]
        self._values[name] = tensor
        self._types[name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        return name

    def scalar(self, value: float) -> str:
        """Add a constant without dimensions."""
        return self.constant(value)

    def positive(self, *shape: int) -> str:
        """Add a constant of numbers between 0.5 and 1.5."""
        return self.constant(self._rng.uniform(0.5, 1.5, shape))

    # -- convolutions ------------------------------------------------------------------------------------------

    def convolve(
        self,
        x: str,
        made: int,
        kernel: int | tuple[int, ...] = 1,
        stride: int | tuple[int, ...] = 1,
        group: int = 1,
        dilation: int = 1,
        bias: bool | None = None,
    ) -> str:
        """A convolution of a map, or of a line of rank 3, that pads by half its kernel; then a normalisation, if the
        network has them unfolded.
        """
        space = len(self.dims(x)) - 2
        sides = (kernel,) * space if isinstance(kernel, int) else kernel
        strides = (stride,) * space if isinstance(stride, int) else stride
        weights = self._rng.normal(size=(made, self.channels(x) // group, *sides))
        weights *= math.sqrt(2 / weights[0].size) * np.exp(self._rng.normal(0, self.uneven, (made, *[1] * (space + 1))))
        pads = [side // 2 * dilation for side in sides] * 2
        with_bias = not self.unfolded if bias is None else bias
        given = [self.normal(made, scale=0.1)] if with_bias else []
        y = self.op(
            "Conv",
            x,
            self.constant(weights),
            *given,
            dilations=[dilation] * space,
            group=group,
            kernel_shape=list(sides),
            pads=pads,
            strides=list(strides),
        )
        return self.batch_norm(y) if not with_bias and bias is None else y

    def batch_norm(self, x: str) -> str:
        """A BatchNormalization with its epsilon written out."""
        channels = self.channels(x)
        mean, deviation = self.normal(channels, scale=0.1), self.positive(channels)
        return self.op(
            "BatchNormalization",
            x,
            self.positive(channels),
            self.normal(channels, scale=0.1),
            mean,
            deviation,
            epsilon=1e-5,
            momentum=0.9,
        )

    def layer(
        self, x: str, made: int, kernel: int | tuple[int, ...] = 3, stride: int | tuple[int, ...] = 1, group: int = 1
    ) -> str:
        """A convolution and the network's activation."""
        return self.activate(self.convolve(x, made, kernel, stride, group))

    def depthwise(self, x: str, kernel: int = 3, stride: int = 1) -> str:
        """A convolution of each channel by itself."""
        channels = self.channels(x)
        return self.convolve(x, channels, kernel, stride, channels)

    # -- activations and normalisations, as each operator set spells them ---------------------------------------

    def activate(self, x: str, kind: str = "") -> str:
        """``x`` behind the network's activation, or that called ``kind``."""
        match kind or self.activation:
            case "silu":
                return self.op("Mul", x, self.op("Sigmoid", x))
            case "hard_swish":
                return self._hard_swish(x)
            case "relu6":
                return self.clip(x, 0.0, 6.0)
            case "leaky_relu":
                return self.op("LeakyRelu", x, alpha=self.pick(0.01, 0.1, 0.2))
            case "gelu":
                return self.gelu(x) if self.chance(0.8) else self._tanh_gelu(x)
            case "prelu":
                ones = (1,) * (len(self.dims(x)) - 2)
                return self.op("PRelu", x, self.constant(self._rng.uniform(0.05, 0.4, (self.channels(x), *ones))))
            case "mish":
                return self.op("Mul", x, self.op("Tanh", self.op("Softplus", x)))
            case "elu":
                return self.op("Elu", x, alpha=1.0)
            case "tanh":
                return self.op("Tanh", x)
            case "sigmoid":
                return self.op("Sigmoid", x)
            case "none":
                return x
            case _:
                return self.op("Relu", x)

    def _hard_swish(self, x: str) -> str:
        """In the three ways that exporters write it."""
        way = self.pick("fused", "clip", "divided")
        if way == "fused":
            return self.op("Mul", x, self.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))
        gate = self.clip(self.op("Add", x, self.scalar(3.0)), 0.0, 6.0)
        if way == "clip":
            return self.op("Mul", x, self.op("Div", gate, self.scalar(6.0)))
        return self.op("Div", self.op("Mul", x, gate), self.scalar(6.0))

    def hard_sigmoid(self, x: str) -> str:
        """As one operator or as a Clip."""
        if self.chance(0.6):
            return self.op("HardSigmoid", x, alpha=self.pick(1 / 6, 0.2), beta=0.5)
        return self.op("Div", self.clip(self.op("Add", x, self.scalar(3.0)), 0.0, 6.0), self.scalar(6.0))

    def _tanh_gelu(self, x: str) -> str:
        cube = self.op("Pow", x, self.scalar(3.0))
        inner = self.op("Add", x, self.op("Mul", cube, self.scalar(0.044715)))
        bent = self.op("Tanh", self.op("Mul", inner, self.scalar(math.sqrt(2 / math.pi))))
        return self.op("Mul", self.op("Mul", x, self.scalar(0.5)), self.op("Add", bent, self.scalar(1.0)))

    def clip(self, x: str, low: float, high: float) -> str:
        """Bounds as attributes in operator set 10, as inputs in 11."""
        if self.opset < 11:
            return self.op("Clip", x, min=low, max=high)
        return self.op("Clip", x, self.scalar(low), self.scalar(high))

    def softmax(self, x: str, axis: int) -> str:
        """Over one axis: one that is not the last is moved there and back, as PyTorch exports it."""
        rank = len(self.dims(x))
        if axis % rank == rank - 1:
            return self.op("Softmax", x, axis=rank - 1)
        perm = list(range(rank))
        perm[axis], perm[-1] = perm[-1], perm[axis]
        return self.transpose(self.op("Softmax", self.transpose(x, *perm), axis=rank - 1), *perm)

    def norm_last(self, x: str) -> str:
        """A normalisation over the last axis, with a square by Pow or by Mul, divided or multiplied."""
        width = self.dims(x)[-1]
        if self.chance(0.7):
            return self.layer_norm(x, width)
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1], keepdims=1))
        mean = self.op("ReduceMean", self.op("Mul", centred, centred), axes=[-1], keepdims=1)
        root = self.op("Sqrt", self.op("Add", mean, self.scalar(1e-6)))
        normed = self.op("Mul", centred, self.op("Reciprocal", root)) if self.chance(0.5) else None
        normed = normed or self.op("Div", centred, root)
        return self.op("Add", self.op("Mul", normed, self.positive(width)), self.normal(width, scale=0.1))

    def group_norm(self, x: str, groups: int) -> str:
        """As PyTorch exports it: an InstanceNormalization of ``groups`` lines."""
        _, channels, height, width = self.dims(x)
        lines = self.reshape(x, 1, groups, -1)
        ones, zeros = self.constant(np.ones(groups)), self.constant(np.zeros(groups))
        normed = self.reshape(
            self.op("InstanceNormalization", lines, ones, zeros, epsilon=1e-5), 1, channels, height, width
        )
        return self.op("Add", self.op("Mul", normed, self.positive(channels, 1, 1)), self.normal(channels, 1, 1))

    # -- movements -----------------------------------------------------------------------------------------------

    def concat(self, *parts: str, axis: int = 1) -> str:
        """Parts side by side."""
        return self.op("Concat", *parts, axis=axis)

    def divide(self, x: str, *sizes: int, axis: int = 1) -> list[str]:
        """Parts of ``sizes``: a Split, or a Slice each, as ``chunk`` and indexing are exported."""
        if self.chance(0.7):
            return self.ops("Split", len(sizes), x, axis=axis, split=list(sizes))
        ends = np.cumsum(sizes).tolist()
        return [self.cut(x, end - size, end, axis) for size, end in zip(sizes, ends, strict=True)]

    def cut(self, x: str, start: int, end: int, axis: int, step: int = 1) -> str:
        """A Slice."""
        given = [self.ints(start), self.ints(end), self.ints(axis)]
        return self.op("Slice", x, *given, *([self.ints(step)] if step != 1 or self.chance(0.5) else []))

    def pad(self, x: str, *sides: int, mode: str = "constant", value: float = 0.0) -> str:
        """Columns and rows around a map: left, top, right, bottom."""
        left, top, right, bottom = sides
        amounts = (0, 0, top, left, 0, 0, bottom, right)
        if self.opset < 11:
            return self.op("Pad", x, mode=mode, pads=list(amounts), value=value)
        given = [self.scalar(value)] if mode == "constant" else []
        return self.op("Pad", x, self.ints(*amounts), *given, mode=mode)

    def pool(self, x: str, kernel: int, stride: int, kind: str = "MaxPool", pad: int = 0) -> str:
        """A pooling of a map or line."""
        space = len(self.dims(x)) - 2
        return self.op(kind, x, kernel_shape=[kernel] * space, strides=[stride] * space, pads=[pad] * (2 * space))

    def mean_map(self, x: str) -> str:
        """The mean of each channel, rank 4, in three spellings."""
        match self.pick("global", "global", "reduced", "pooled"):
            case "global":
                return self.op("GlobalAveragePool", x)
            case "reduced":
                return self.op("ReduceMean", x, axes=self.pick([2, 3], [-1, -2]), keepdims=1)
            case _:
                height, width = self.size(x)
                return self.op("AveragePool", x, kernel_shape=[height, width], strides=[height, width])

    def resize(self, x: str, height: int, width: int, mode: str = "nearest") -> str:
        """``x`` in another size, in the spellings of the operator set."""
        before = self.size(x)
        whole = height % before[0] == 0 and width % before[1] == 0
        more = 0.0 if whole else 0.01  # the product with float32 scales is rounded down
        scales = self.constant([1, 1, (height + more) / before[0], (width + more) / before[1]])
        if self.opset < 11:
            return self.op("Resize", x, scales, mode=mode)
        where = "asymmetric" if mode == "nearest" else self.pick("half_pixel", "pytorch_half_pixel", "align_corners")
        rounding = {"nearest_mode": "floor"} if mode == "nearest" else {}
        given = [self.constant([]), scales]
        if not whole or self.chance(0.5):
            given = [given[0], self.constant([]), self.ints(1, self.channels(x), height, width)]
        return self.op("Resize", x, *given, mode=mode, coordinate_transformation_mode=where, **rounding)

    def tokens(self, x: str) -> str:
        """The pixels of a map as rows: shape (1, pixels, channels)."""
        channels = self.channels(x)
        if self.chance(0.5):
            flat = self.reshape(x, 1, channels, -1)
        else:
            height, width = self.size(x)
            flat = self.reshape(x, 1, channels, height * width)
        return self.transpose(flat, 0, 2, 1)

    def image(self, tokens: str, height: int, width: int) -> str:
        """The inverse of :meth:`tokens`."""
        channels = self.dims(tokens)[2]
        return self.reshape(self.transpose(tokens, 0, 2, 1), 1, channels, height, width)

    def dense(self, x: str, made: int) -> str:
        """A layer over the last axis: MatMul and sum, or Gemm on rank 2."""
        width = self.dims(x)[-1]
        if len(self.dims(x)) == 2 and self.chance(0.8):
            bias = self.normal(made, scale=0.1)
            return self.op("Gemm", x, self.normal(made, width, scale=width**-0.5), bias, transB=1, alpha=1.0, beta=1.0)
        return self.linear(x, width, made)

    def model(self) -> onnx.ModelProto:
        """The network without the nodes that lead to no output, as exporters write it."""
        needed, kept = set(self._outputs), []
        for node in reversed(self._nodes):
            if needed & set(node.output):
                kept.append(node)
                needed |= set(node.input)
        self._nodes = kept[::-1]
        self._constants = [each for each in self._constants if each.name in needed]
        return super().model()

    def _result(self, name: str) -> onnx.ValueInfoProto:
        return helper.make_value_info(name, self._types[name])

    def samples(self) -> NDArray[np.float32]:
        """Calibration data of the first input; see :meth:`data`."""
        return self.data()["x"]

    def data(self) -> dict[str, NDArray[np.float32]]:
        """Normal numbers by input, float32, shape (8, ...): the same at every call."""
        found = {}
        for index, (name, shape) in enumerate(self.inputs.items()):
            rng = np.random.default_rng([index, *shape])
            found[name] = rng.normal(size=(SAMPLES, *shape)).astype(np.float32)
        return found
