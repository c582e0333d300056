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
RSQRT = Loop(_ELEMENTWISE, "rsqrt", (_NUMBERS, _NUMBERS, _NUMBERS))
ROOT = Loop(_ELEMENTWISE, "root", (_NUMBERS, _NUMBERS))
EXPONENTIAL, LOGARITHM, SOFTPLUS, MISH = (
    Loop(_ELEMENTWISE, name, (_NUMBERS, _NUMBERS)) for name in ("exponential", "logarithm", "softplus", "mish")
)
ELU = Loop(_ELEMENTWISE, "elu", (_NUMBERS, Argument("float32"), _NUMBERS))
SELU = Loop(_ELEMENTWISE, "selu", (_NUMBERS, _NUMBERS, _NUMBERS))
LRN = Loop("engine.floats.response_loops", "response_normalisation", (_ROWS, _NUMBERS, Argument("int64"), _ROWS))

SOFTMAX_ROWS, LOG_SOFTMAX_ROWS = (
    Loop("engine.floats.softmax.loops", name, (_ROWS, _ROWS)) for name in ("softmax_rows", "log_softmax_rows")
)
SOFTMAX_ALONG = Loop("engine.floats.softmax.loops", "softmax_along", (_MAPS, _MAPS))
SUMS_OF_COLUMNS, PRODUCTS_OF_COLUMNS = (
    Loop("engine.floats.reduction_loops", name, (_ROWS, _NUMBERS))
    for name in ("sums_of_columns", "products_of_columns")
)

DEPTHWISE = Loop(
    "engine.floats.depthwise_loops",
    "depthwise_maps",
    (_MAPS, _ROWS, _NUMBERS, _WHOLE, _NUMBERS, _NUMBERS, _WHOLE, _NUMBERS, _MAPS),
)

LOOPS = (
    *(SWISH, GELU, RSQRT, ROOT, EXPONENTIAL, LOGARITHM, SOFTPLUS, MISH, ELU, SELU, LRN),
    *(SOFTMAX_ROWS, LOG_SOFTMAX_ROWS, SOFTMAX_ALONG, SUMS_OF_COLUMNS, PRODUCTS_OF_COLUMNS, DEPTHWISE),
)
"""All of them; their names differ from those of other rooms, and of the simulator's kernels."""
