"""The compiled loops of statistics, and what each takes."""

from __future__ import annotations

from engine.native.loops import Argument, Loop

_NUMBERS, _DOUBLES, _WHOLE = Argument("float32", 1), Argument("float64", 1), Argument("int64", 1)
_BITS, _BITS_OF_CHANNELS, _BINS = Argument("int32", 1), Argument("int32", 3), Argument("uint32", 1)

_OBSERVED = "engine.calibrate.statistics.loops"
PEAKS = Loop(_OBSERVED, "channel_peaks", (_BITS_OF_CHANNELS, _BITS, _BITS))
KEEP_LARGER = Loop(_OBSERVED, "keep_larger", (_BITS, _BITS, _WHOLE, Argument("int32")))
COUNT = Loop(_OBSERVED, "count", (_NUMBERS, Argument("float32"), _WHOLE, _BINS))
DIVERGENCES = Loop(
    "engine.calibrate.statistics.divergence",
    "divergences",
    (_DOUBLES, _DOUBLES, _DOUBLES, _WHOLE, _DOUBLES),
)

LEAST_CUT = Loop(
    "engine.calibrate.statistics.divergence",
    "least_cut",
    (_DOUBLES, _DOUBLES, _DOUBLES, _WHOLE, _NUMBERS, _NUMBERS, _NUMBERS, _WHOLE),
)

LOOPS = (PEAKS, KEEP_LARGER, COUNT, DIVERGENCES, LEAST_CUT)
"""All of them; their names differ from those of other rooms, and of the simulator's kernels."""
