"""The stage that runs a quantised model on the evaluation images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.data.sources import as_fed
from engine.config import InputSpec
from engine.convert.items import QUANTIZED, THREADS
from engine.convert.runner import Stage, Work
from engine.simulate import Session
from harness.backends.items import CARD, DATASET, EVALUATION_SAMPLES, FLOAT_OUTPUTS, OUTPUTS
from harness.backends.stages.compared import run_compared

Array = NDArray[Any]


def integer_feed(session: Session, images: Array, spec: InputSpec) -> dict[str, Array]:
    """Images in the training format as the quantised model's input: run-time colours minus 128, its type and layout.

    Args:
        session: of the quantised model.
        images: uint8, in ``type_train`` and ``layout_train``.
        spec: the input.
    """
    (wanted,) = session.inputs
    fed = as_fed(images, spec)
    if fed.shape[1:] != wanted.shape[1:] and fed.transpose(0, 2, 3, 1).shape[1:] == wanted.shape[1:]:
        fed = fed.transpose(0, 2, 3, 1)  # nv12 is channels-last in the quantised stage (reference/calibration.md 5)
    if np.issubdtype(wanted.dtype, np.integer):
        limits = np.iinfo(wanted.dtype)
        fed = np.clip(np.rint(fed), limits.min, limits.max)
    return {wanted.name: np.ascontiguousarray(fed, wanted.dtype)}


def _simulate(work: Work) -> None:
    card = work[CARD]
    session = Session(work[QUANTIZED], threads=work[THREADS])
    (spec,) = work.config.input_specs([card.input_spec.name])

    def run(images: Array) -> list[Array]:
        return list(session.run(integer_feed(session, card.training_images(images), spec)).values())

    split = work[DATASET].split(card.dataset.evaluation.split)
    work.give(OUTPUTS, run_compared(run, split, work[EVALUATION_SAMPLES], work[FLOAT_OUTPUTS]))


SIMULATE = Stage(
    name="simulate",
    run=_simulate,
    reads=(CARD, DATASET, EVALUATION_SAMPLES, FLOAT_OUTPUTS, QUANTIZED, THREADS),
    gives=(OUTPUTS,),
    parameters=("input_parameters",),
)
