"""The stage that ranks nodes by what their quantisation alone does to the outputs, for ``int16: {top_k: …}``."""

from __future__ import annotations

from engine.calibrate.methods.sensitivity import sensitivities
from engine.convert.items import DATA, THREADS, THRESHOLDS
from engine.convert.runner import Stage, Work
from harness.backends.items import RANKING

SENSITIVITY_SAMPLES = 8
"""Calibration samples that nodes are ranked on."""


def _rank(work: Work) -> None:
    data = work[DATA]
    if data is None:
        raise LookupError("nodes are ranked on data")
    feed = data.read(0, min(SENSITIVITY_SAMPLES, len(data)))
    cosines = sensitivities(work[THRESHOLDS], feed, threads=work[THREADS])
    work.give(RANKING, tuple(sorted(cosines, key=lambda name: cosines[name])))


RANK = Stage(name="sensitivity", run=_rank, reads=(THRESHOLDS, DATA, THREADS), gives=(RANKING,))
