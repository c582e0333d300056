"""How often the faster of two networks is estimated to be the faster one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

DISTANCE = 0.1
"""Relative difference of two measured latencies from which on their order counts."""


def ordered_pairs(known: Sequence[tuple[float, float]]) -> tuple[int, int]:
    """How many pairs the estimates order as measured, and how many differ enough to count.

    Args:
        known: measured and estimated latency of each network, on one march.
    """
    right = total = 0
    for (measured, estimated), (other, other_estimated) in combinations(known, 2):
        if max(measured, other) > (1 + DISTANCE) * min(measured, other):
            total += 1
            right += (measured > other) == (estimated > other_estimated) and estimated != other_estimated
    return right, total


def ordering_text(known: Sequence[tuple[float, float]]) -> str:
    """The share of :func:`ordered_pairs` that is ordered rightly, as a line of a report."""
    right, total = ordered_pairs(known)
    share = f"{right / total:.1%}" if total else "-"
    return f"pairs that differ by more than {DISTANCE:.0%} ordered rightly: {share} of {total}"
