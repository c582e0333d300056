"""Small float networks around a pattern that an optimiser pass rewrites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper

from tests.engine.optimize.equivalence import build

Array = NDArray[Any]


@dataclass
class Network:
    """Nodes that are appended one by one; every tensor is named by its number."""

    opset: int
    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    """Graph outputs beside the last result."""

    def input(self, *shape: int) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = shape
        return name

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values, dtype)
        return name

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def normal(self, *shape: int) -> str:
        return self.constant(self.rng.normal(size=shape))

    def positive(self, *shape: int) -> str:
        return self.constant(self.rng.uniform(0.5, 2.0, size=shape))

    def op(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Append a node; its first output."""
        number = len(self.nodes)
        names = [f"t{number}", *(f"t{number}_{index}" for index in range(1, outputs))]
        self.nodes.append(helper.make_node(op_type, inputs, names, name=f"{op_type}_{number}", **attributes))
        return names[0]

    def conv(self, x: str, channels: int, filters: int, kernel: int = 3, **attributes: Any) -> str:
        """A convolution of ``x``; with a bias in half of the networks."""
        weight = self.normal(filters, channels // attributes.get("group", 1), kernel, kernel)
        bias = (self.normal(filters),) if self.rng.random() < 0.5 else ()
        return self.op("Conv", x, weight, *bias, kernel_shape=[kernel, kernel], **attributes)

    def mean(self, x: str, *axes: int, keepdims: int = 1) -> str:
        if self.opset < 18:
            return self.op("ReduceMean", x, axes=list(axes), keepdims=keepdims)
        return self.op("ReduceMean", x, self.ints(*axes), keepdims=keepdims)

    def clip(self, x: str, low: float, high: float) -> str:
        if self.opset < 11:
            return self.op("Clip", x, min=low, max=high)
        return self.op("Clip", x, self.constant(low), self.constant(high))


Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Pattern:
    """How networks with a pattern are drawn.

    Attributes:
        append: appends the pattern to a network; its result.
        opsets: the opsets in which it can be written.
    """

    append: Callable[[Draw, Network], str]
    opsets: tuple[int, ...] = (11, 13, 17, 18)


@dataclass(frozen=True)
class PatternCase:
    """A network that contains a pattern.

    Attributes:
        model: as the frontend gives it, inputs ``x0``, ``x1``, …
        shared: whether a tensor inside is a graph output too, so that the pattern may have to stay.
        operators: what the network consists of, for the reader of a failing example.
        opset: its opset.
        seed: of the inputs.
    """

    model: ir.Model = field(repr=False)
    shared: bool
    operators: tuple[str, ...]
    opset: int
    seed: int


@st.composite
def pattern_cases(draw: Draw, pattern: Pattern) -> PatternCase:
    """``pattern``, sometimes followed by another operator, sometimes with a second reader of a tensor inside."""
    seed = draw(st.integers(0, 2**16))
    network = Network(draw(st.sampled_from(pattern.opsets)), np.random.default_rng(seed))
    result = pattern.append(draw, network)
    inner = [item.output[0] for item in network.nodes if item.op_type in _FLOAT_RESULTS and item.output[0] != result]
    if draw(st.booleans()):
        result = network.op("Neg", result)
    shared = bool(inner) and draw(st.booleans())
    outputs = [result, *([draw(st.sampled_from(inner))] if shared else []), *network.outputs]
    model = build(network.nodes, network.inputs, outputs, network.constants, network.opset)
    return PatternCase(model, shared, tuple(item.op_type for item in network.nodes), network.opset, seed)


_FLOAT_RESULTS = frozenset({"Conv", "Add", "Mul", "Sub", "Div", "Reshape", "Transpose", "Sigmoid", "Pad", "Relu"})
