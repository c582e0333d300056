"""The kernels, and the loop that calls them, as functions by address: each is compiled when a program first needs it.

So a network compiles, and keeps on disk, no kernel that it does not use; and none is compiled into the machine once
more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numba
from numba import carray, types
from numba.np.numpy_support import from_dtype

from engine.native.registers import LEVEL
from engine.native.sources import sources_digest
from engine.simulate.kernels import arithmetic as floats
from engine.simulate.kernels import conversion, float_resize, matmul, movement, reduction
from engine.simulate.kernels import convolution as conv
from engine.simulate.kernels import elementwise as ew
from engine.simulate.kernels import float_convolution as float_conv
from engine.simulate.kernels import float_product as products
from engine.simulate.kernels import interpreter as machine
from engine.simulate.kernels import recurrent as cells
from engine.simulate.kernels import softmax as powers
from engine.simulate.kernels.instructions import ENTRIES, INSTRUCTION

Kernel = Callable[..., None]
"""Computes units of an instruction: pointer to its record, addresses of the arena and of scratch, first unit, end."""

RECORDS = types.CPointer(from_dtype(INSTRUCTION))
KERNEL_SIGNATURE = types.void(RECORDS, *[types.intp] * 4)


def _convolution(sources: str) -> Kernel:
    def convolution(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        conv.convolution(carray(f, 1)[0], arena, scratch, begin, end)

    return convolution


def _depthwise(sources: str) -> Kernel:
    def depthwise(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        conv.depthwise(carray(f, 1)[0], arena, scratch, begin, end)

    return depthwise


def _pad(sources: str) -> Kernel:
    def pad(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        movement.pad(carray(f, 1)[0], arena, begin, end)

    return pad


def _copy(sources: str) -> Kernel:
    def copy(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        movement.strided_copy(carray(f, 1)[0], arena, begin, end)

    return copy


def _table(sources: str) -> Kernel:
    def table(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        movement.look_up(carray(f, 1)[0], arena, begin, end)

    return table


def _elementwise(sources: str) -> Kernel:
    def elementwise(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        ew.elementwise(carray(f, 1)[0], arena, scratch, begin, end)

    return elementwise


def _max_pool(sources: str) -> Kernel:
    def max_pool(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        ew.max_pool(carray(f, 1)[0], arena, begin, end)

    return max_pool


def _average_pool(sources: str) -> Kernel:
    def average_pool(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        ew.average_pool(carray(f, 1)[0], arena, scratch, begin, end)

    return average_pool


def _global_average(sources: str) -> Kernel:
    def global_average(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        ew.global_average(carray(f, 1)[0], arena, scratch, begin, end)

    return global_average


def _bilinear(sources: str) -> Kernel:
    def bilinear(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        conversion.bilinear(carray(f, 1)[0], arena, begin, end)

    return bilinear


def _quantize(sources: str) -> Kernel:
    def quantize(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        conversion.quantize(carray(f, 1)[0], arena, scratch, begin, end)

    return quantize


def _dequantize(sources: str) -> Kernel:
    def dequantize(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        conversion.dequantize(carray(f, 1)[0], arena, begin, end)

    return dequantize


def _matrix_product(sources: str) -> Kernel:
    def matrix_product(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        matmul.product(carray(f, 1)[0], arena, scratch, begin, end)

    return matrix_product


def _reduce(sources: str) -> Kernel:
    def reduce(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        reduction.reduce(carray(f, 1)[0], arena, scratch, begin, end)

    return reduce


def _softmax(sources: str) -> Kernel:
    def softmax(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        powers.softmax(carray(f, 1)[0], arena, scratch, begin, end)

    return softmax


def _arithmetic(sources: str) -> Kernel:
    def arithmetic(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        floats.arithmetic(carray(f, 1)[0], arena, begin, end)

    return arithmetic


def _cast(sources: str) -> Kernel:
    def cast(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        floats.cast(carray(f, 1)[0], arena, begin, end)

    return cast


def _float_convolution(sources: str) -> Kernel:
    def float_convolution(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        float_conv.float_convolution(carray(f, 1)[0], arena, scratch, begin, end)

    return float_convolution


def _resize(sources: str) -> Kernel:
    def resize(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        float_resize.resize(carray(f, 1)[0], arena, scratch, begin, end)

    return resize


def _recurrent(sources: str) -> Kernel:
    def recurrent(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        cells.recurrent(carray(f, 1)[0], arena, scratch, begin, end)

    return recurrent


def _float_product(sources: str) -> Kernel:
    def float_product(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
        _ = sources
        products.float_product(carray(f, 1)[0], arena, scratch, begin, end)

    return float_product


def _leader(sources: str) -> Kernel:
    def leader(
        seats: int, helpers: int, records: int, count: int, arena: int, scratch: int, state: int, threads: int
    ) -> None:
        _ = sources
        machine.lead(seats, helpers, records, count, arena, scratch, state, threads)

    return leader


def _helper(sources: str) -> Kernel:
    def helper(seat: int) -> None:
        _ = sources
        machine.serve(seat)

    return helper


# The closure of each holds nothing but the digest of the sources and the level: it is part of the key of code that is
# kept on disk.
MAKERS: Mapping[str, Callable[[str], Kernel]] = {
    "convolution": _convolution,
    "depthwise": _depthwise,
    "pad": _pad,
    "copy": _copy,
    "table": _table,
    "elementwise": _elementwise,
    "max_pool": _max_pool,
    "average_pool": _average_pool,
    "global_average": _global_average,
    "bilinear": _bilinear,
    "quantize": _quantize,
    "dequantize": _dequantize,
    "matrix_product": _matrix_product,
    "reduce": _reduce,
    "softmax": _softmax,
    "arithmetic": _arithmetic,
    "cast": _cast,
    "float_convolution": _float_convolution,
    "resize": _resize,
    "recurrent": _recurrent,
    "float_product": _float_product,
    "leader": _leader,
    "helper": _helper,
}
"""By the name of a kind of instruction in lower case; and what runs programs, as the first thread and as another."""


def signature(name: str) -> Any:
    """Types of the arguments of an entry."""
    return types.void(*[types.intp] * ENTRIES[name]) if name in ENTRIES else KERNEL_SIGNATURE


@cache
def compiled_entry(name: str) -> Any:
    """The entry ``name``, compiled by numba: its ``address`` is valid as long as the process lives.

    numba knows the CPU of what it keeps on disk, not which of its registers the system grants: the level says that.
    """
    function = MAKERS[name](f"{sources_digest()} {LEVEL.name if LEVEL else ''}")
    try:
        return numba.cfunc(signature(name), cache=True, error_model="numpy")(function)
    except RuntimeError:  # numba found no writable folder: compile anew in every process
        return numba.cfunc(signature(name), error_model="numpy")(function)
