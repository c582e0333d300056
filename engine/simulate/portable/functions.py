"""The integer helpers of exported models: model-local ONNX functions over float64.

Integers are carried in float64, which holds them exactly up to 2**53; the BPU's sums and products stay below 2**50.
Multiplication by a power of two is exact there, so that ``Floor(v * 2**-s)`` is the arithmetic shift ``v >> s`` and
``Floor(v * 2**-s + 0.5)`` is ``rnd(v, s)`` (reference/arithmetic.md 0). A shift thus is a *factor*; a
multiplication before the shift is part of the same factor: ``scale * 2**-s`` needs only the bits of ``scale``.
"""

from __future__ import annotations

from functools import cache

import onnx.parser
import onnx_ir as ir

from engine.ops.core.portable import FUNCTION_DOMAIN

FUNCTION_VERSION = 1

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
        turns = ptqlab.integer.ShiftFloor (raised, inverse_range)
        excess = Mul (turns, range)
        result = Sub (value, excess)
    }""",
    # sat(rnd(value * factor))
    """RequantizeRound (value, factor, low, high) => (result) {
        rounded = ptqlab.integer.ShiftRound (value, factor)
        result = Clip (rounded, low, high)
    }""",
    # sat(rnd(sat16(floor(value * narrowing)) * factor))
    """RescaleRound (value, narrowing, factor, low, high) => (result) {
        shifted = ptqlab.integer.ShiftFloor (value, narrowing)
        narrowed = ptqlab.integer.Saturate16 (shifted)
        result = ptqlab.integer.RequantizeRound (narrowed, factor, low, high)
    }""",
    # sat(floor(sat16(floor(value * narrowing)) * factor))
    """RescaleFloor (value, narrowing, factor, low, high) => (result) {
        shifted = ptqlab.integer.ShiftFloor (value, narrowing)
        narrowed = ptqlab.integer.Saturate16 (shifted)
        scaled = ptqlab.integer.ShiftFloor (narrowed, factor)
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
)


@cache
def _protos(opset: int) -> tuple[onnx.FunctionProto, ...]:
    header = f'<domain: "{FUNCTION_DOMAIN}", opset_import: ["" : {opset}, "{FUNCTION_DOMAIN}" : {FUNCTION_VERSION}]>\n'
    return tuple(onnx.parser.parse_function(header + source) for source in _SOURCES)


def integer_functions(opset: int) -> list[ir.Function]:
    """All helpers, for a model of that standard operator set version."""
    return [ir.from_proto(proto) for proto in _protos(opset)]
