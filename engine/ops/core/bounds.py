"""What operators say of their own error: how far a quantised node may be from its float node on the same integers.

For every BPU node with real operator ``f``, input integers ``q`` of scales ``xs`` and an output of scale ``ys``::

    | y * ys - clip(f(q * xs)) | <= bound,      clip to the range of the output's integers

The bound follows from the node's own integers and needs no data. Every operator with a requantised output is an affine
map of its inputs (or of a product of them) in exact arithmetic, followed by a narrowing shift and a requantisation, so
the bound has four parts:

* coefficients: the integer coefficient times the value of an accumulator unit, less the float one, times the largest
  magnitude of the integer that it multiplies, summed (:func:`coefficient`);
* constants: the same for the bias, less the half output unit that a bias contains where the last shift floors;
* rounding: half an output unit for the last shift, and one unit of the narrowed accumulator for the first one;
* range: what saturation of the narrowed accumulator to 16 bits takes from the output's range (``OutputStage.loss``).

Saturation of the output and Relu bring two numbers no further apart, so neither adds to it. Element-wise tables have
at most 65536 inputs: their bound is found by trying all of them. An accumulator that could overflow 32 bits has no
bound (infinity).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.ir import shape_of

Array = NDArray[Any]
Attributes = Mapping[str, Any]
Float64 = NDArray[np.float64]

NARROW_MAX = 32767
"""Largest narrowed accumulator."""
ACCUMULATOR_MAX = 2.0**31 - 1
FLOAT_ROUNDOFF = 2.0**-24
"""Unit roundoff of float32, in which the float node is computed."""
BITS: Mapping[ir.DataType, int] = MappingProxyType({ir.DataType.INT8: 8, ir.DataType.INT16: 16, ir.DataType.INT32: 32})


@dataclass(frozen=True)
class IntegerOperand:
    """An integer tensor that a quantised node reads.

    Attributes:
        value: the tensor of the quantised graph.
        tensor: name of the float tensor that it stands for.
        scale: value of one unit.
        largest: largest magnitude of an integer.
    """

    value: ir.Value
    tensor: str
    scale: float
    largest: float


@dataclass(frozen=True)
class Case:
    """A quantised node and the float nodes that it stands for.

    Attributes:
        node: the quantised node.
        attributes: its attributes, defaults filled in.
        chain: the float nodes, in order.
        operands: the integer activations, in the order in which the chain reads them.
        scale: value of one output unit, shape (1,), or (channels,) for an int32 accumulator.
    """

    node: ir.Node
    attributes: Attributes
    chain: Sequence[ir.Node]
    operands: Sequence[IntegerOperand]
    scale: Float64

    @property
    def qmax(self) -> int:
        """Largest integer of the output.

        Raises:
            ModelError: its type is unknown.
        """
        dtype = self.node.outputs[0].dtype
        if dtype is None:
            raise ModelError(f"tensor {self.node.outputs[0].name} has no type")
        return int((1 << (BITS[dtype] - 1)) - 1)


@dataclass(frozen=True)
class Unbounded:
    """An operator has no bound.

    Attributes:
        reason: why.
    """

    reason: str


Bound = Float64 | Unbounded
"""Shape (1,), () or (channels,), in units of the float tensor; or that there is none."""

NO_FLOAT_NODE = Unbounded("it stands for no float node")
POSITIONS = Unbounded("its results are positions")


@dataclass(frozen=True)
class OutputStage:
    """An output stage: ``sat(shift(sat16(acc >> accumulator_shift) * multiplier, shift))``, per channel."""

    multiplier: Float64
    accumulator_shift: Float64
    shift: Float64

    @property
    def step(self) -> Float64:
        """Output units of one unit of the narrowed accumulator."""
        return self.multiplier * np.exp2(-self.shift)

    @property
    def unit(self) -> Float64:
        """Output units of one unit of the accumulator."""
        return self.step * np.exp2(-self.accumulator_shift)

    def loss(self, qmax: int) -> Float64:
        """Rounding and range, in output units."""
        narrowed = np.where(self.accumulator_shift > 0, self.step, 0.0)
        above, below = qmax - NARROW_MAX * self.step, (qmax + 1) - (NARROW_MAX + 1) * self.step
        return np.asarray(0.5 + narrowed + np.maximum(0.0, np.maximum(above, below)))


def stage_of(attributes: Attributes, multiplier: str, accumulator_shift: str, shift: str) -> OutputStage:
    """The output stage whose parameters are the attributes of these names."""
    names = (multiplier, accumulator_shift, shift)
    return OutputStage(*(np.atleast_1d(np.asarray(attributes[name], np.float64)) for name in names))


def float64(array: Array | None) -> Float64:
    """``array`` as a vector of float64; 1 where there is none."""
    return np.ones(1) if array is None else array.astype(np.float64).reshape(-1)


def coefficient(integer: Any, unit: Any, wanted: Any, largest: float) -> Float64:
    """Error of one term of the sum, and the rounding of the float node's."""
    return np.asarray(np.abs(np.asarray(integer) * unit - wanted) + np.abs(wanted) * FLOAT_ROUNDOFF) * largest


def exact(case: Case) -> Float64:
    """Integers are moved or compared: nothing is lost but what float32 loses of ``q * xs``."""
    x = case.operands[0]
    return np.asarray(x.scale * x.largest * FLOAT_ROUNDOFF)


def reduction(case: Case, stage: OutputStage | None, *, mean: bool) -> Float64:
    """Mean or sum of the integers that each output sees; ``stage`` is ``None`` where the output is the int32 sum."""
    x = case.operands[0]
    count = int(np.prod(shape_of(x.value))) // int(np.prod(shape_of(case.node.outputs[0])))
    wanted, largest = x.scale / count if mean else x.scale, x.largest * count
    rounding = (count + 2) * FLOAT_ROUNDOFF * wanted * largest
    unit, loss = case.scale, np.zeros(1)
    if stage is not None:
        unit, loss = stage.unit * case.scale, stage.loss(case.qmax) * case.scale
    return np.asarray(coefficient(1.0, unit, wanted, largest) + loss + rounding)


def weighted_sum(
    case: Case, stage: OutputStage | None, weights: tuple[Array, Array], bias: tuple[Float64, Float64]
) -> Float64:
    """A convolution, with a second operand that is added to its accumulator or without.

    Args:
        case: the node; its chain begins with the convolution.
        stage: output stage; ``None`` where the output is the accumulator.
        weights: float and integer ones, both (channels, terms) in the same order.
        bias: float and integer ones, the latter shifted.
    """
    x, attributes = case.operands[0], case.attributes
    (wanted, integers), (float_bias, integer_bias) = weights, bias
    unit = case.scale if stage is None else stage.unit * case.scale
    half = 0.0 if stage is None else 0.5 * case.scale
    terms = wanted.shape[1] + 2
    error = coefficient(integers, unit[:, None] if unit.size > 1 else unit, wanted * x.scale, x.largest).sum(axis=1)
    error = error + np.abs(integer_bias * unit - half - float_bias)
    reach = np.abs(integers).sum(axis=1) * x.largest + np.abs(integer_bias)
    magnitude = np.abs(wanted).sum(axis=1) * x.scale * x.largest + np.abs(float_bias)
    if attributes.get("use_sumin"):
        e = case.operands[1]
        factor = attributes["e_scale"] * np.exp2(attributes["e_shift"].astype(np.float64))
        error = error + coefficient(factor, unit, e.scale, e.largest) + np.where(attributes["e_shift"] < 0, unit, 0)
        reach, magnitude = reach + factor * e.largest, magnitude + e.scale * e.largest
    loss = 0.0 if stage is None else stage.loss(case.qmax) * case.scale
    return np.where(reach <= ACCUMULATOR_MAX, error + loss + terms * FLOAT_ROUNDOFF * magnitude, np.inf)


def tabulated(
    case: Case, definition: Callable[[Sequence[Array | None]], tuple[Array, ...]], function: Callable[[Array], Array]
) -> Float64:
    """Every input of an element-wise operator is tried.

    Args:
        case: the node.
        definition: its results for inputs.
        function: the float function.
    """
    x = case.operands[0]
    q = np.arange(-int(x.largest), int(x.largest)).astype(np.int8 if x.largest <= 128 else np.int16)
    (y,) = definition([q.reshape(1, 1, 1, -1)])
    with np.errstate(all="ignore"):
        wanted = function(q.astype(np.float64) * x.scale)
    qmax, scale = case.qmax, float(case.scale[0])
    wanted = np.clip(np.nan_to_num(wanted, nan=-np.inf), -(qmax + 1) * scale, qmax * scale)
    rounding = FLOAT_ROUNDOFF * 64 * np.max(np.abs(wanted))
    return np.asarray(np.max(np.abs(np.asarray(y, np.float64).ravel() * scale - wanted)) + rounding)
