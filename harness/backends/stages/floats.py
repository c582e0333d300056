"""The stage that runs the float model on the evaluation images."""

from __future__ import annotations

from engine.convert.items import THREADS
from engine.convert.runner import Stage, Work
from harness.backends.items import CARD, DATA_DIGEST, EVALUATION_SAMPLES, FLOAT_OUTPUTS
from harness.zoo.float_baseline import float_outputs


def _run(work: Work) -> None:
    work.give(FLOAT_OUTPUTS, float_outputs(work[CARD], work[EVALUATION_SAMPLES], work[THREADS] or 1))


RUN_FLOAT = Stage(
    name="float", run=_run, reads=(CARD, DATA_DIGEST, EVALUATION_SAMPLES, THREADS), gives=(FLOAT_OUTPUTS,)
)
