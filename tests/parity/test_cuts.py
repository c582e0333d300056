"""The cuts that ``kl`` takes of tensors that the original was asked about (docs/evidence/calibration.md).

The files of ``recorded/cuts`` have groups of them: the cut, in bins, then the filled ones of 1,024 bins and their
counts.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.calibrate.methods.kl import kl_threshold
from engine.calibrate.statistics.distribution import Histogram

GROUPS = {
    name: rows
    for file in sorted((Path(__file__).parent / "recorded" / "cuts").glob("*.json"))
    for name, rows in json.loads(file.read_text()).items()
}


def counts_of(bins: list[int], counts: list[int]) -> NDArray[np.int64]:
    histogram = np.zeros(1024, np.int64)
    histogram[bins] = counts
    return histogram


@pytest.mark.parametrize("group", GROUPS)
def test_cuts_are_those_of_the_original(group: str) -> None:
    expected = [cut + 0.5 for cut, _, _ in GROUPS[group]]
    found = [kl_threshold(Histogram(counts_of(bins, counts), 1.0)) for _, bins, counts in GROUPS[group]]
    assert found == expected


def test_divergences_of_float64_have_their_minimum_elsewhere() -> None:
    """So float32 sums and their six decimals decide many of these."""
    cuts = [row for rows in GROUPS.values() for row in rows]
    exact = sum(kl_threshold(Histogram(counts_of(*row[1:]), 1.0), decimals=False) == row[0] + 0.5 for row in cuts)
    assert exact < len(cuts) * 2 / 3
