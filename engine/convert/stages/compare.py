"""The stages that compare what was made with the float model."""

from __future__ import annotations

from engine.convert.items import (
    CALIBRATED,
    COMPARISON,
    DATA,
    INTEGER_DISTANCES,
    OPTIMIZED,
    QUANTIZED,
    REFERENCE,
    SEEN_OUTPUTS,
    THREADS,
)
from engine.convert.runner import Stage, Work


def _compare(work: Work) -> None:
    from engine.floats.compare import ModelComparison, compare  # brings the float model, which a check does not need

    data = work[DATA]
    found = ModelComparison({}, {})
    if data is not None:
        found = compare(work[REFERENCE], work[CALIBRATED], data.read(0, 1), threads=work[THREADS])
    work.give(COMPARISON, found)


def _measure(work: Work) -> None:
    data = work[DATA]
    if data is None:
        work.give(INTEGER_DISTANCES, {})
        return
    from engine.evaluate.similarity import integer_distances  # brings the simulator

    found = integer_distances(work[OPTIMIZED], work[QUANTIZED], data, work[SEEN_OUTPUTS], threads=work[THREADS])
    work.give(INTEGER_DISTANCES, found)


COMPARE = Stage(name="compare", run=_compare, reads=(REFERENCE, CALIBRATED, DATA, THREADS), gives=(COMPARISON,))
MEASURE = Stage(
    name="measure",
    run=_measure,
    reads=(OPTIMIZED, QUANTIZED, DATA, SEEN_OUTPUTS, THREADS),
    gives=(INTEGER_DISTANCES,),
)
