"""The compiled loops of calibration, and what each takes."""

from __future__ import annotations

from engine.native.loops import Argument, Loop

ELEMENTWISE_BLOCK = 1024
"""Numbers that an element-wise loop computes at a time, and places that it needs room for."""

_NUMBERS, _ROWS, _MAPS = (Argument("float32", dimensions) for dimensions in (1, 2, 3))
_DOUBLES, _WHOLE = Argument("float64", 1), Argument("int64", 1)
_BITS, _BITS_OF_CHANNELS, _BINS = Argument("int32", 1), Argument("int32", 3), Argument("uint32", 1)

_OBSERVED = "engine.calibrate.statistics.loops"
PEAKS = Loop(_OBSERVED, "channel_peaks", (_BITS_OF_CHANNELS, _BITS, _BITS))
KEEP_LARGER = Loop(_OBSERVED, "keep_larger", (_BITS, _BITS, _WHOLE, Argument("int32")))
COUNT = Loop(_OBSERVED, "count", (_NUMBERS, Argument("float64"), _WHOLE, _BINS))
DIVERGENCES = Loop(
    "engine.calibrate.statistics.divergence",
    "divergences",
    (_DOUBLES, _DOUBLES, _DOUBLES, _WHOLE, _DOUBLES, _DOUBLES),
)

_ELEMENTWISE = "engine.calibrate.forward.elementwise_loops"
SWISH = Loop(_ELEMENTWISE, "swish", (_NUMBERS, _WHOLE, _NUMBERS))
GELU = Loop(_ELEMENTWISE, "gelu", (_NUMBERS, _WHOLE, _NUMBERS))
RSQRT = Loop(_ELEMENTWISE, "rsqrt", (_NUMBERS, Argument("float32"), _NUMBERS))

_REDUCTION = "engine.calibrate.forward.reduction_loops"
SOFTMAX_ROWS = Loop(_REDUCTION, "softmax_rows", (_ROWS, _ROWS))
MEAN_OF_MIDDLE = Loop(_REDUCTION, "mean_of_middle", (_MAPS, _ROWS))

DEPTHWISE = Loop(
    "engine.calibrate.forward.depthwise_loops",
    "depthwise_maps",
    (_MAPS, _ROWS, _NUMBERS, _WHOLE, _NUMBERS, _NUMBERS, _WHOLE, _NUMBERS, _MAPS),
)

LOOPS = (PEAKS, KEEP_LARGER, COUNT, DIVERGENCES, SWISH, GELU, RSQRT, SOFTMAX_ROWS, MEAN_OF_MIDDLE, DEPTHWISE)
"""All of them; their names differ from those of the simulator's kernels."""
