"""The stages that look for outputs of a quantised model that no longer say what the float model's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from engine.calibrate.data.samples import evenly_spread
from engine.calibrate.data.sources import ArrayData
from engine.convert.items import CALIBRATED, OPTIMIZED, QUANTIZED
from engine.convert.runner import Stage, Work
from engine.debug.bisection.breaks import Break, broken_in_words, first_break
from engine.floats.health import HealthMeter, IntegerDistance, broken
from harness.backends.items import BROKEN, CARD, DATASET, FLOAT_OUTPUTS, OUTPUTS
from harness.trials.figures import BrokenOutputs

Array = NDArray[Any]

_MOST_VALUES = 1 << 23
"""Values of an output that are looked at, of evenly spread samples; about a second."""
_LEAST_SAMPLES = 4


def _look(work: Work, find: Callable[[int], Break | None]) -> None:
    """Look at the outputs; ``find`` looks for the node on the evaluation sample with this number."""
    outputs, meter = work[OUTPUTS]
    pairs = dict(zip(work[CARD].output_names(), zip(outputs, work[FLOAT_OUTPUTS], strict=True), strict=True))
    distances = {name: _distance(*pair) for name, pair in pairs.items()}
    found = [index for index, each in enumerate(distances.values()) if broken(each)]

    def on_the_worst() -> Break | None:
        return find(int(meter.cosines[:, found[0]].argmin()))

    names = tuple(list(distances)[index] for index in found)
    work.give(BROKEN, BrokenOutputs(outputs=names, text=" ".join(broken_in_words(distances, on_the_worst))))


def _distance(ours: Array, floats: Array) -> IntegerDistance:
    """The distance of one output to the float one."""
    ours, meter = ours.reshape(floats.shape), HealthMeter()
    samples = max(_LEAST_SAMPLES, _MOST_VALUES // max(1, floats[:1].size))
    for index in evenly_spread(len(ours), samples):
        meter.add(ours[index : index + 1], floats[index : index + 1])
    return meter.distance()


def _look_and_find(work: Work) -> None:
    card = work[CARD]
    specs = work.config.input_specs([spec.name for spec in card.input_specs])
    split = work[DATASET].split(card.dataset.evaluation.split)

    def find(index: int) -> Break | None:
        data = ArrayData(card.training_inputs(split.take(index, index + 1)), specs)
        return first_break(work[OPTIMIZED], work[CALIBRATED], work[QUANTIZED], data.read(0, 1))

    _look(work, find)


LOOK_AT_OUTPUTS = Stage(
    name="broken",
    run=_look_and_find,
    reads=(CARD, DATASET, FLOAT_OUTPUTS, OUTPUTS, OPTIMIZED, CALIBRATED, QUANTIZED),
    gives=(BROKEN,),
    parameters=("input_parameters",),
)
LOOK_AT_FOREIGN_OUTPUTS = Stage(
    name="broken, foreign",
    run=lambda work: _look(work, lambda index: None),
    reads=(CARD, FLOAT_OUTPUTS, OUTPUTS),
    gives=(BROKEN,),
)
"""The stage for other engines, whose nodes are not those of the float model."""
