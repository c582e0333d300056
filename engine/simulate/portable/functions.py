"""The helpers of exported models: model-local ONNX functions.

Integers are carried in float64, which holds them exactly up to 2**53; the BPU's sums and products stay below 2**50.
Multiplication by a power of two is exact there, so that ``Floor(v * 2**-s)`` is the arithmetic shift ``v >> s`` and
``Floor(v * 2**-s + 0.5)`` is ``rnd(v, s)`` (reference/arithmetic.md 0). A shift thus is a *factor*; a
multiplication before the shift is part of the same factor: ``scale * 2**-s`` needs only the bits of ``scale``.

The exponential of a Softmax is that of :mod:`engine.floats.softmax.definition`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx.parser
import onnx_ir as ir

from engine.floats.softmax.exponential import HALF, LN2_HIGH, LN2_LOW, LOG2_E, LOWEST, LOWEST_POWER, ONE, POLYNOMIAL
from engine.ops.core.portable import FUNCTION_DOMAIN

FUNCTION_VERSION = 1


def _text(value: np.floating[Any]) -> str:
    """A float32 in digits that name it alone."""
    return repr(float(value))


def _polynomial() -> str:
    """Statements that give the polynomial of ``rest`` as ``sum_5``."""
    statements = ["sum_0 = Constant <value = float {" + _text(POLYNOMIAL[0]) + "}> ()"]
    for k, factor in enumerate(POLYNOMIAL[1:], 1):
        statements += [
            f"factor_{k} = Constant <value = float {{{_text(factor)}}}> ()",
            f"product_{k} = Mul (sum_{k - 1}, rest)",
            f"sum_{k} = Add (product_{k}, factor_{k})",
        ]
    return "\n".join(statements)


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
    # e**x for x up to 0
    f"""Exponential (x) => (result) {{
        lowest = Constant <value = float {{{_text(LOWEST)}}}> ()
        bounded = Max (x, lowest)
        log2_e = Constant <value = float {{{_text(LOG2_E)}}}> ()
        half = Constant <value = float {{{_text(HALF)}}}> ()
        scaled = Mul (bounded, log2_e)
        raised = Add (scaled, half)
        power = Floor (raised)
        high = Constant <value = float {{{_text(LN2_HIGH)}}}> ()
        low = Constant <value = float {{{_text(LN2_LOW)}}}> ()
        high_part = Mul (power, high)
        upper = Sub (bounded, high_part)
        low_part = Mul (power, low)
        rest = Sub (upper, low_part)
        {_polynomial()}
        square = Mul (rest, rest)
        squared = Mul (sum_{len(POLYNOMIAL) - 1}, square)
        with_rest = Add (squared, rest)
        one = Constant <value = float {{{_text(ONE)}}}> ()
        value = Add (with_rest, one)
        powers_of_two = Constant <value = {_powers_of_two()}> ()
        whole = Cast <to = 7> (power)
        first = Constant <value = int64 {{{LOWEST_POWER}}}> ()
        last = Constant <value = int64 {{0}}> ()
        within = Clip (whole, first, last)
        place = Sub (within, first)
        scale = Gather (powers_of_two, place)
        result = Mul (value, scale)
    }}""",
)


@cache
def _protos(opset: int) -> tuple[onnx.FunctionProto, ...]:
    header = f'<domain: "{FUNCTION_DOMAIN}", opset_import: ["" : {opset}, "{FUNCTION_DOMAIN}" : {FUNCTION_VERSION}]>\n'
    return tuple(onnx.parser.parse_function(header + source) for source in _SOURCES)


def own_functions(opset: int) -> list[ir.Function]:
    """All helpers, for a model of that standard operator set version."""
    return [ir.from_proto(proto) for proto in _protos(opset)]
