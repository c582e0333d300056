"""Typed views of memory at an address, for kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from engine.jit import compiled
from engine.simulate.kernels.scalar import void_pointer


@compiled
def uint8_at(address: int, size: int) -> Any:
    """``size`` bytes at ``address``."""
    return carray(void_pointer(address), (size,), dtype=np.uint8)


@compiled
def int8_at(address: int, size: int) -> Any:
    """``size`` int8 at ``address``."""
    return carray(void_pointer(address), (size,), dtype=np.int8)


@compiled
def int16_at(address: int, size: int) -> Any:
    """``size`` int16 at ``address``."""
    return carray(void_pointer(address), (size,), dtype=np.int16)


@compiled
def int32_at(address: int, size: int) -> Any:
    """``size`` int32 at ``address``."""
    return carray(void_pointer(address), (size,), dtype=np.int32)


@compiled
def int64_at(address: int, size: int) -> Any:
    """``size`` int64 at ``address``."""
    return carray(void_pointer(address), (size,), dtype=np.int64)


@compiled
def float32_at(address: int, size: int) -> Any:
    """``size`` float32 at ``address``."""
    return carray(void_pointer(address), (size,), dtype=np.float32)


@compiled
def float64_at(address: int, size: int) -> Any:
    """``size`` float64 at ``address``."""
    return carray(void_pointer(address), (size,), dtype=np.float64)


@compiled
def copy_bytes(source: int, target: int, size: int) -> None:
    """Copy ``size`` bytes between regions that do not overlap."""
    read, written = uint8_at(source, size), uint8_at(target, size)
    for k in range(size):
        written[k] = read[k]


@compiled
def widen(address: int, item_bytes: int, stride: int, target: Any) -> None:
    """Every ``stride``-th int8, int16 or int32 at ``address`` into the int32 array ``target``."""
    if item_bytes == 1:
        spread(int8_at(address, (len(target) - 1) * stride + 1), stride, target)
    elif item_bytes == 2:
        spread(int16_at(address, (len(target) - 1) * stride + 1), stride, target)
    else:
        spread(int32_at(address, (len(target) - 1) * stride + 1), stride, target)


@compiled
def spread(source: Any, stride: int, target: Any) -> None:
    """Every ``stride``-th element of ``source``; neighbours in a loop that vectors can run."""
    if stride == 1:
        for k in range(len(target)):
            target[k] = source[k]
    elif stride == 0:
        for k in range(len(target)):
            target[k] = source[0]
    else:
        for k in range(len(target)):
            target[k] = source[k * stride]


@compiled
def store(values: Any, address: int, item_bytes: int) -> None:
    """The integers ``values``, which fit, as int8 or int16 at ``address``."""
    size = len(values)
    if item_bytes == 1:
        narrow = int8_at(address, size)
        for k in range(size):
            narrow[k] = values[k]
    else:
        wide = int16_at(address, size)
        for k in range(size):
            wide[k] = values[k]
