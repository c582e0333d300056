"""The compiled loops of float networks, and what each takes."""

from __future__ import annotations

from engine.native.loops import Argument, Loop

ELEMENTWISE_BLOCK = 1024
"""Numbers that an element-wise loop computes at a time, and places that it needs room for."""

_NUMBERS, _ROWS, _MAPS = (Argument("float32", dimensions) for dimensions in (1, 2, 3))
_WHOLE = Argument("int64", 1)

_ELEMENTWISE = "engine.floats.elementwise_loops"
SWISH = Loop(_ELEMENTWISE, "swish", (_NUMBERS, _WHOLE, _NUMBERS))
GELU = Loop(_ELEMENTWISE, "gelu", (_NUMBERS, _WHOLE, _NUMBERS))
RSQRT = Loop(_ELEMENTWISE, "rsqrt", (_NUMBERS, Argument("float32"), _NUMBERS))
ROOT = Loop(_ELEMENTWISE, "root", (_NUMBERS, _NUMBERS))

SOFTMAX_ROWS = Loop("engine.floats.softmax.loops", "softmax_rows", (_ROWS, _ROWS))
MEAN_OF_MIDDLE = Loop("engine.floats.reduction_loops", "mean_of_middle", (_MAPS, _ROWS))

DEPTHWISE = Loop(
    "engine.floats.depthwise_loops",
    "depthwise_maps",
    (_MAPS, _ROWS, _NUMBERS, _WHOLE, _NUMBERS, _NUMBERS, _WHOLE, _NUMBERS, _MAPS),
)

LOOPS = (SWISH, GELU, RSQRT, ROOT, SOFTMAX_ROWS, MEAN_OF_MIDDLE, DEPTHWISE)
"""All of them; their names differ from those of other rooms, and of the simulator's kernels."""
