"""The stage that looks at the calibration samples of a trial, beside those that are evaluated."""

from __future__ import annotations

import numpy as np

from engine.calibrate.data.doubts import array_doubts, other_distribution
from engine.calibrate.data.samples import evenly_spread
from engine.convert.runner import Stage, Work
from harness.backends.items import CARD, DATASET, DOUBTS, EVALUATION_SAMPLES, SAMPLES

_COMPARED = 32
"""Evaluation samples, evenly spread, that calibration samples are compared with."""


def _look(work: Work) -> None:
    card = work[CARD]
    specs = work.config.input_specs([spec.name for spec in card.input_specs])
    arrays = card.training_inputs(work[SAMPLES])
    split = work[DATASET].split(card.dataset.evaluation.split)
    indices = evenly_spread(work[EVALUATION_SAMPLES], _COMPARED)
    others = [card.training_inputs(split.take(index, index + 1)) for index in indices]
    differences = [
        other_distribution(array, np.concatenate([other[name] for other in others]), name)
        for name, array in arrays.items()
    ]
    work.give(DOUBTS, (*array_doubts(arrays, specs), *filter(None, differences)))


LOOK_AT_DATA = Stage(
    name="doubts",
    run=_look,
    reads=(CARD, DATASET, EVALUATION_SAMPLES, SAMPLES),
    gives=(DOUBTS,),
    parameters=("input_parameters",),
)
