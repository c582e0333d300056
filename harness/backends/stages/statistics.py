"""The stage that collects statistics for all settings of a preparation in one pass over the calibration data."""

from __future__ import annotations

from engine.calibrate import Statistics, collect_into
from engine.convert.items import DATA, OPTIMIZED, STATISTICS
from engine.convert.runner import Stage, Work
from harness.backends.items import STATISTICS_FILE, STATISTICS_OPTIONS, TENSORS


def _collect(work: Work) -> None:
    path, data = work[STATISTICS_FILE], work[DATA]
    if data is None:
        raise LookupError("statistics are collected of data")
    collect_into(path, work[OPTIMIZED], list(work[TENSORS]), data, work[STATISTICS_OPTIONS])
    work.give(STATISTICS, Statistics.load(path))


COLLECT = Stage(
    name="statistics",
    run=_collect,
    reads=(OPTIMIZED, DATA, TENSORS, STATISTICS_OPTIONS, STATISTICS_FILE),
    gives=(STATISTICS,),
)
