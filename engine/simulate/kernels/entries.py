"""The kernels as functions that the machine calls by address: each is compiled when a program first needs it.

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

from engine.simulate.kernels import conversion, matmul, movement, reduction
from engine.simulate.kernels import convolution as conv
from engine.simulate.kernels import elementwise as ew
from engine.simulate.kernels.instructions import INSTRUCTION, InstructionKind
from engine.simulate.kernels.jit import sources_digest

Kernel = Callable[[Any, int, int, int, int], None]
"""Computes units of an instruction: pointer to its record, addresses of the arena and of scratch, first unit, end."""

SIGNATURE = types.void(types.CPointer(from_dtype(INSTRUCTION)), types.intp, types.intp, types.intp, types.intp)


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
        conversion.quantize(carray(f, 1)[0], arena, begin, end)

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


# The closure of each holds nothing but the digest of the sources: it is part of the key of code that is kept on disk.
_MAKERS: Mapping[InstructionKind, Callable[[str], Kernel]] = {
    InstructionKind.CONVOLUTION: _convolution,
    InstructionKind.DEPTHWISE: _depthwise,
    InstructionKind.PAD: _pad,
    InstructionKind.COPY: _copy,
    InstructionKind.TABLE: _table,
    InstructionKind.ELEMENTWISE: _elementwise,
    InstructionKind.MAX_POOL: _max_pool,
    InstructionKind.AVERAGE_POOL: _average_pool,
    InstructionKind.GLOBAL_AVERAGE: _global_average,
    InstructionKind.BILINEAR: _bilinear,
    InstructionKind.QUANTIZE: _quantize,
    InstructionKind.DEQUANTIZE: _dequantize,
    InstructionKind.MATRIX_PRODUCT: _matrix_product,
    InstructionKind.REDUCE: _reduce,
}


@cache
def kernel(kind: InstructionKind) -> Any:
    """The compiled kernel of ``kind``: its ``address`` is valid as long as the process lives."""
    function = _MAKERS[kind](sources_digest())
    try:
        return numba.cfunc(SIGNATURE, cache=True, error_model="numpy")(function)
    except RuntimeError:  # numba found no writable folder: compile anew in every process
        return numba.cfunc(SIGNATURE, error_model="numpy")(function)
