"""The helpers of exported models: model-local ONNX functions.

Integers are carried in float64, which holds them exactly up to 2**53; the BPU's sums and products stay below 2**50.
Multiplication by a power of two is exact there, so that ``Floor(v * 2**-s)`` is the arithmetic shift ``v >> s`` and
``Floor(v * 2**-s + 0.5)`` is ``rnd(v, s)`` (reference/arithmetic.md 0). A shift thus is a *factor*; a
multiplication before the shift is part of the same factor: ``scale * 2**-s`` needs only the bits of ``scale``.

The exponential of a Softmax is that of :mod:`engine.floats.softmax.definition`, whose multiply-adds round once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx.parser
import onnx_ir as ir

from engine.floats.softmax.exponential import LN2_HIGH, LN2_LOW, LOG2_E, LOWEST, LOWEST_POWER, POLYNOMIAL, ROUNDING
from engine.ops.core.portable import FUNCTION_DOMAIN

FUNCTION_VERSION = 1


def _text(value: np.floating[Any]) -> str:
    """A float32 in digits that name it alone."""
    return repr(float(value))


def _polynomial() -> str:
    """Statements that give the polynomial of ``rest`` as ``sum_6``."""
    constants = [f"factor_{k} = Constant <value = float {{{_text(c)}}}> ()" for k, c in enumerate(POLYNOMIAL)]
    steps = [f"sum_{k} = ptqlab.MultiplyAdd (sum_{k - 1}, rest, factor_{k})" for k in range(1, len(POLYNOMIAL))]
    return "\n".join([*constants, "sum_0 = Identity (factor_0)", *steps])


def _powers_of_two() -> str:
    """2**n from :data:`LOWEST_POWER`, which counts as 0, to 0."""
    values = [0.0, *(2.0**n for n in range(LOWEST_POWER + 1, 1))]
    return f"float[{len(values)}] {{{', '.join(map(repr, values))}}}"


_SOURCES = (
    # floor(value * factor)
    """ShiftFloor (value, factor) => (result) {
        scaled = Mul (value, factor)
        result = Floor (scaled)
    }""",
    # floor(value * factor + 1/2): half is rounded up
    """ShiftRound (value, factor) => (result) {
        scaled = Mul (value, factor)
        half = Constant <value = double {0.5}> ()
        shifted = Add (scaled, half)
        result = Floor (shifted)
    }""",
    """Saturate16 (value) => (result) {
        low = Constant <value = double {-32768.0}> ()
        high = Constant <value = double {32767.0}> ()
        result = Clip (value, low, high)
    }""",
    # value modulo 2**32 as a signed 32-bit number
    """WrapInt32 (value) => (result) {
        half_range = Constant <value = double {2147483648.0}> ()
        inverse_range = Constant <value = double {2.3283064365386962890625e-10}> ()
        range = Constant <value = double {4294967296.0}> ()
        raised = Add (value, half_range)
        turns = ptqlab.ShiftFloor (raised, inverse_range)
        excess = Mul (turns, range)
        result = Sub (value, excess)
    }""",
    # sat(rnd(value * factor))
    """RequantizeRound (value, factor, low, high) => (result) {
        rounded = ptqlab.ShiftRound (value, factor)
        result = Clip (rounded, low, high)
    }""",
    # sat(rnd(sat16(floor(value * narrowing)) * factor))
    """RescaleRound (value, narrowing, factor, low, high) => (result) {
        shifted = ptqlab.ShiftFloor (value, narrowing)
        narrowed = ptqlab.Saturate16 (shifted)
        result = ptqlab.RequantizeRound (narrowed, factor, low, high)
    }""",
    # sat(floor(sat16(floor(value * narrowing)) * factor))
    """RescaleFloor (value, narrowing, factor, low, high) => (result) {
        shifted = ptqlab.ShiftFloor (value, narrowing)
        narrowed = ptqlab.Saturate16 (shifted)
        scaled = ptqlab.ShiftFloor (narrowed, factor)
        result = Clip (scaled, low, high)
    }""",
    # sat(rint(value / scale)) in float32; what does not fit an int32, and nan, becomes INT32_MIN
    """QuantizeFloat (value, scale, low, high) => (result) {
        limit = Constant <value = float {2147483648.0}> ()
        lowest = Constant <value = float {-2147483648.0}> ()
        ratio = Div (value, scale)
        rounded = Round (ratio)
        magnitude = Abs (rounded)
        fits = Less (magnitude, limit)
        integer = Where (fits, rounded, lowest)
        result = Clip (integer, low, high)
    }""",
    # a * b + c in float32, rounded once: float64 holds the product exactly and says what the sum lost. A sum in the
    # middle between two float32 goes to the one on the side of what it lost. Two casts that follow one another would
    # be taken out by ONNX Runtime: a Neg is between them.
    """MultiplyAdd (a, b, c) => (result) {
        wide_a = Cast <to = 11> (a)
        wide_b = Cast <to = 11> (b)
        wide_c = Cast <to = 11> (c)
        product = Mul (wide_a, wide_b)
        total = Add (product, wide_c)
        part = Sub (total, product)
        other_part = Sub (total, part)
        lost_product = Sub (product, other_part)
        lost_c = Sub (wide_c, part)
        lost = Add (lost_product, lost_c)
        near = Cast <to = 1> (total)
        minus_near = Neg (near)
        wide_minus_near = Cast <to = 11> (minus_near)
        rest = Add (total, wide_minus_near)
        wide_far = Add (total, rest)
        far = Cast <to = 1> (wide_far)
        minus_far = Neg (far)
        wide_minus_far = Cast <to = 11> (minus_far)
        off = Add (wide_far, wide_minus_far)
        zero = Constant <value = double {0.0}> ()
        middle = Equal (off, zero)
        side = Mul (lost, rest)
        beyond = Greater (side, zero)
        wrong = And (middle, beyond)
        result = Where (wrong, far, near)
    }""",
    # e**x for x up to 0
    f"""Exponential (x) => (result) {{
        lowest = Constant <value = float {{{_text(LOWEST)}}}> ()
        bounded = Max (x, lowest)
        log2_e = Constant <value = float {{{_text(LOG2_E)}}}> ()
        rounding = Constant <value = float {{{_text(ROUNDING)}}}> ()
        shifted = ptqlab.MultiplyAdd (bounded, log2_e, rounding)
        power = Sub (shifted, rounding)
        high = Constant <value = float {{{_text(LN2_HIGH)}}}> ()
        low = Constant <value = float {{{_text(LN2_LOW)}}}> ()
        upper = ptqlab.MultiplyAdd (power, high, bounded)
        rest = ptqlab.MultiplyAdd (power, low, upper)
        {_polynomial()}
        powers_of_two = Constant <value = {_powers_of_two()}> ()
        whole = Cast <to = 7> (power)
        first = Constant <value = int64 {{{LOWEST_POWER}}}> ()
        last = Constant <value = int64 {{0}}> ()
        within = Clip (whole, first, last)
        place = Sub (within, first)
        scale = Gather (powers_of_two, place)
        result = Mul (sum_{len(POLYNOMIAL) - 1}, scale)
    }}""",
)


@cache
def _protos(opset: int) -> tuple[onnx.FunctionProto, ...]:
    header = f'<domain: "{FUNCTION_DOMAIN}", opset_import: ["" : {opset}, "{FUNCTION_DOMAIN}" : {FUNCTION_VERSION}]>\n'
    return tuple(onnx.parser.parse_function(header + source) for source in _SOURCES)


def own_functions(opset: int) -> list[ir.Function]:
    """All helpers, for a model of that standard operator set version."""
    return [ir.from_proto(proto) for proto in _protos(opset)]
