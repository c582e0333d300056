"""How an operator is written with standard ONNX nodes: what it sees of the node that it replaces, and how it writes.

Integers are carried in float64, or in float32 where no value leaves +-2**24; functions of the model do their shifts
and saturations (:mod:`engine.simulate.portable.functions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike, NDArray
from onnx_ir.tape import Tape

from engine.errors import UnsupportedError
from engine.ops.core.fixed_point import integer_type

Array = NDArray[Any]
Attributes = Mapping[str, Any]

FUNCTION_DOMAIN = "ptqlab"
"""Domain of the model's own functions."""
FLOAT32_EXACT = 2**24
"""Magnitude up to which all integers, and sums of products that stay below, are exact in float32."""
FLOAT64_SAFE = 2**50
"""Magnitude up to which sums of a few terms stay exact in float64."""
INT32_LIMIT = 2**31
TO_NCHW, TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
Term = ir.Value | Array | np.generic | None
"""Input of a node: a value of the graph, a constant to add to it, or None where it is omitted."""


@dataclass(frozen=True)
class SourceTensor:
    """An input of the node.

    Attributes:
        value: the tensor in the graph.
        shape: its shape for one sample of the model.
        dtype: its numpy type.
        constant: what it holds if no graph input changes it, else None.
    """

    value: ir.Value
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    constant: Array | None

    @property
    def magnitude(self) -> int:
        """Largest absolute value that an integer tensor can hold; that it does hold if it is constant."""
        if self.constant is not None:
            return int(np.abs(self.constant.astype(np.int64)).max(initial=0))
        return -int(np.iinfo(self.dtype).min)


@dataclass(frozen=True)
class SourceNode:
    """The node to translate.

    Attributes:
        node: the node itself.
        attributes: its attributes, defaults filled in.
        inputs: its inputs in order; None for an omitted one.
    """

    node: ir.Node
    attributes: Attributes
    inputs: tuple[SourceTensor | None, ...]

    def input(self, index: int) -> SourceTensor:
        """The input at ``index``, which must be there.

        Raises:
            UnsupportedError: it is omitted.
        """
        operand = self.inputs[index] if -len(self.inputs) <= index < len(self.inputs) else None
        if operand is None:
            raise UnsupportedError(f"node {self.node.name} ({self.node.op_type}): input {index} is missing")
        return operand

    def constant(self, index: int) -> Array:
        """The array that the input at ``index`` holds.

        Raises:
            UnsupportedError: it depends on the model's inputs.
        """
        array = self.input(index).constant
        if array is None:
            raise UnsupportedError(
                f"node {self.node.name} ({self.node.op_type}): input {index} ({self.input(index).value.name}) must be"
                " a constant to be exported"
            )
        return array


class Emitter:
    """Writes the standard nodes that stand for one node, named after it."""

    def __init__(self, prefix: str) -> None:
        """Args: prefix, what the names of new nodes and constants begin with."""
        self._prefix = prefix
        self._tape = Tape()
        self.initializers: list[ir.Value] = []

    @property
    def nodes(self) -> Sequence[ir.Node]:
        """What has been written, in order."""
        return self._tape.nodes

    def op(self, op_type: str, *inputs: Term, **attributes: Any) -> ir.Value:
        """The output of a standard node."""
        return self._node(op_type, inputs, attributes)[0]

    def ops(self, op_type: str, outputs: int, *inputs: Term, **attributes: Any) -> tuple[ir.Value, ...]:
        """All outputs of a standard node that has several."""
        return self._node(op_type, inputs, attributes, outputs)

    def call(self, function: str, *inputs: Term) -> ir.Value:
        """The output of one of the model's own functions (:mod:`engine.simulate.portable.functions`)."""
        return self._node(function, inputs, {}, domain=FUNCTION_DOMAIN)[0]

    def cast(self, value: Term, dtype: Any) -> ir.Value:
        """``value`` as another type."""
        return self.op("Cast", value, to=int(ir.DataType.from_numpy(np.dtype(dtype))))

    def wide(self, operand: SourceTensor) -> ir.Value:
        """An integer tensor in float64, where arithmetic on it is exact."""
        return self.cast(operand.value, np.float64)

    def transpose(self, value: Term, *perm: int) -> ir.Value:
        """``value`` with its axes in the order of ``perm``."""
        return self.op("Transpose", value, perm=list(perm))

    def reshape(self, value: Term, shape: Sequence[int]) -> ir.Value:
        """``value`` in another shape; 0 keeps a dimension, -1 takes what is left."""
        return self.op("Reshape", value, np.array(shape, np.int64))

    def _node(
        self, op_type: str, inputs: Sequence[Term], attributes: Mapping[str, Any], outputs: int = 1, domain: str = ""
    ) -> tuple[ir.Value, ...]:
        given = [x if x is None or isinstance(x, ir.Value) else self._constant(np.asarray(x)) for x in inputs]
        name = f"{self._prefix}/{op_type}_{len(self._tape.nodes)}"
        results = [ir.Value(name=f"{name}_output_{index}") for index in range(outputs)]
        self._tape.op_multi_out(op_type, given, attributes, outputs=results, domain=domain, name=name)
        return tuple(results)

    def _constant(self, array: Array) -> ir.Value:
        name = f"{self._prefix}/constant_{len(self.initializers)}"
        value = ir.Value(
            name=name,
            shape=ir.Shape(array.shape),
            type=ir.TensorType(ir.DataType.from_numpy(array.dtype)),
            const_value=ir.tensor(np.ascontiguousarray(array).reshape(array.shape), name=name),
        )
        self.initializers.append(value)
        return value


def factor(shift: ArrayLike, scale: ArrayLike = 1) -> NDArray[np.float64]:
    """``scale * 2**-shift`` per channel, exact; a scalar where there is one value."""
    values = np.ldexp(np.asarray(scale, np.float64), -np.asarray(shift, np.int64))
    return values.reshape(()) if values.size == 1 else values


def limits(bits: int, low: int | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Range of a signed integer of 8, 16 or 32 bits in float64, or from ``low`` on."""
    info = np.iinfo(integer_type(bits))
    return np.array(float(info.min if low is None else low)), np.array(float(info.max))


def floors(attributes: Attributes) -> bool:
    """Whether the last shift floors; any other ``rounding_method`` rounds half up."""
    return str(attributes.get("rounding_method", "ROUND")) == "FLOOR"


def maximum(x: SourceTensor, axes: Sequence[int], emit: Emitter) -> ir.Value:
    """Largest value along ``axes``, which stay; in float32, for int16 has no kernel."""
    largest = emit.op("ReduceMax", emit.cast(x.value, np.float32), np.array(axes), keepdims=1)
    return emit.cast(largest, x.dtype)


def pick(x: ir.Value, indices: NDArray[np.int64], axis: int, emit: Emitter) -> ir.Value:
    """``x`` at ``indices`` along ``axis``."""
    return emit.op("Gather", x, indices.astype(np.int64), axis=axis)


def in_nhwc(planes: Term, dtype: np.dtype[np.generic], emit: Emitter) -> ir.Value:
    """NCHW ``planes`` as ``dtype`` in NHWC."""
    return emit.transpose(emit.cast(planes, dtype), *TO_NHWC)


def by_sign(x: ir.Value, positive: ir.Value, negative: ir.Value, emit: Emitter) -> ir.Value:
    """``negative`` where ``x`` is below 0, else ``positive``."""
    return emit.op("Where", emit.op("Less", x, np.float64(0)), negative, positive)
