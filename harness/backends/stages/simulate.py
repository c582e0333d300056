"""The stage that runs a quantised model on the evaluation images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.data.sources import as_fed, bytes_as_fed
from engine.config import InputSpec
from engine.convert.items import QUANTIZED, THREADS
from engine.convert.runner import Stage, Work
from engine.simulate import Session, TensorInfo
from harness.backends.items import CARD, DATASET, EVALUATION_SAMPLES, FLOAT_OUTPUTS, OUTPUTS
from harness.backends.stages.compared import run_compared

if TYPE_CHECKING:
    from harness.datasets import Samples

Array = NDArray[Any]

_IMAGE_RANK = 4


def integer_feed(session: Session, inputs: Mapping[str, Array], specs: Sequence[InputSpec]) -> dict[str, Array]:
    """Inputs as the network was trained as those of the quantised model: run-time colours minus 128, type and layout.

    Args:
        session: of the quantised model.
        inputs: by name; images uint8, in ``type_train`` and ``layout_train``, other arrays as they are.
        specs: the inputs.
    """
    by_name = {spec.name: spec for spec in specs}
    wanted = session.inputs
    if len(wanted) == len(specs) == 1:  # whatever another toolchain calls it
        return {wanted[0].name: _as_taken(inputs[specs[0].name], specs[0], wanted[0])}
    return {each.name: _as_taken(inputs[each.name], by_name[each.name], each) for each in wanted}


def _as_taken(values: Array, spec: InputSpec, wanted: TensorInfo) -> Array:
    """One input."""
    whole = bytes_as_fed(values, spec) if wanted.dtype == np.int8 else None
    fed = as_fed(values, spec) if whole is None else whole
    if fed.ndim == len(wanted.shape) == _IMAGE_RANK and fed.shape[1:] != wanted.shape[1:]:
        fed = fed.transpose(0, 2, 3, 1)  # nv12 is channels-last in the quantised stage (reference/calibration.md 5)
    if whole is None and np.issubdtype(wanted.dtype, np.integer):
        limits = np.iinfo(wanted.dtype)
        fed = np.clip(np.rint(fed), limits.min, limits.max)
    return np.ascontiguousarray(fed, wanted.dtype)


def _simulate(work: Work) -> None:
    card = work[CARD]
    session = Session(work[QUANTIZED], threads=work[THREADS])
    specs = work.config.input_specs([spec.name for spec in card.input_specs])

    def run(samples: Samples) -> list[Array]:
        return list(session.run(integer_feed(session, card.training_inputs(samples), specs)).values())

    split = work[DATASET].split(card.dataset.evaluation.split)
    work.give(OUTPUTS, run_compared(run, split, work[EVALUATION_SAMPLES], work[FLOAT_OUTPUTS]))


SIMULATE = Stage(
    name="simulate",
    run=_simulate,
    reads=(CARD, DATASET, EVALUATION_SAMPLES, FLOAT_OUTPUTS, QUANTIZED, THREADS),
    gives=(OUTPUTS,),
    parameters=("input_parameters",),
)
