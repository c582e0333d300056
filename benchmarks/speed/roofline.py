"""What a network's simulation could take at least on this machine: its operations and bytes at the machine's peak.

The peaks are measured by small loops on one thread: the convolution's own tile of dot products on operands that stay in
the first-level cache, and copies of blocks that stay in the second-level cache, and of blocks that no cache holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from engine.simulate.profile import Profile
from engine.simulate.program import aligned_zeros

CACHED_BYTES, UNCACHED_BYTES = 1 << 18, 1 << 27
SECONDS = 0.2
"""CPU time of each measurement, several times."""
REPETITIONS = 3
DOT_PRODUCTS = frozenset({"convolution", "depthwise", "matrix_product"})
"""Kinds of instructions that multiply and add."""


@dataclass(frozen=True)
class Peaks:
    """What one thread of this machine does at most.

    Attributes:
        operations_per_s: of dot products of 8-bit integers, two per multiply-accumulate.
        cached_bytes_per_s: read and written by copies within the second-level cache.
        memory_bytes_per_s: read and written by copies of what no cache holds.
    """

    operations_per_s: float
    cached_bytes_per_s: float
    memory_bytes_per_s: float


@dataclass(frozen=True)
class Roofline:
    """One network beside the peaks, for one sample on one thread.

    Attributes:
        operations: two per multiply-accumulate.
        bytes: operands and results of all instructions, and constants once.
        seconds: that a sample takes.
        dot_seconds: of these in convolutions and matrix products.
        peaks: of the machine.
    """

    operations: int
    bytes: int
    seconds: float
    dot_seconds: float
    peaks: Peaks

    @property
    def share_of_operations(self) -> float:
        """Share of the peak of operations that the whole run reaches."""
        return self.operations / self.seconds / self.peaks.operations_per_s

    @property
    def share_of_dots(self) -> float:
        """Share of the peak that convolutions and matrix products reach; 0 without any."""
        return self.operations / self.dot_seconds / self.peaks.operations_per_s if self.dot_seconds else 0.0

    @property
    def share_of_bytes(self) -> float:
        """Share of the rate of copies within the cache that the whole run reaches."""
        return self.bytes / self.seconds / self.peaks.cached_bytes_per_s

    def as_dict(self) -> dict[str, float]:
        """All figures, for JSON."""
        return {
            "operations": self.operations,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "dot_seconds": self.dot_seconds,
            "peak_operations_per_s": self.peaks.operations_per_s,
            "peak_cached_bytes_per_s": self.peaks.cached_bytes_per_s,
            "peak_memory_bytes_per_s": self.peaks.memory_bytes_per_s,
            "share_of_operations": self.share_of_operations,
            "share_of_dots": self.share_of_dots,
            "share_of_bytes": self.share_of_bytes,
        }


def roofline(profile: Profile, operations: int) -> Roofline:
    """A profile beside this machine's peaks."""
    return Roofline(
        operations,
        sum(cost.bytes for cost in profile.costs) + profile.constant_bytes,
        profile.seconds,
        sum(cost.seconds for cost in profile.costs if cost.instruction in DOT_PRODUCTS),
        peaks(),
    )


@cache
def peaks() -> Peaks:
    """Measured once per process."""
    from engine.simulate.kernels.peak import OPERATIONS_PER_STEP, STEPS, dot_tiles, operand_bytes

    operands = aligned_zeros(operand_bytes(STEPS))
    operands[:] = 1
    calls = 1000
    dots = _least_seconds(lambda: dot_tiles(operands.ctypes.data, STEPS, calls))
    return Peaks(OPERATIONS_PER_STEP * STEPS * calls / dots, _copies(CACHED_BYTES), _copies(UNCACHED_BYTES))


def _copies(size: int) -> float:
    """Bytes per second, read and written, of copying ``size / 2`` bytes."""
    source, target = np.zeros(size // 2, np.uint8), np.zeros(size // 2, np.uint8)
    source[:] = 1
    return size / _least_seconds(lambda: np.copyto(target, source))


def _least_seconds(call: Callable[[], object]) -> float:
    """CPU seconds of a call, the least mean of several turns."""
    call()
    means = []
    for _ in range(REPETITIONS):
        calls, start = 0, time.thread_time()
        while (elapsed := time.thread_time() - start) < SECONDS:
            call()
            calls += 1
        means.append(elapsed / calls)
    return min(means)
