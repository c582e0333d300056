"""The stage that rewrites the float model without changing its function."""

from __future__ import annotations

from engine.convert.items import FOLDED, ORIGINAL
from engine.convert.runner import Stage, Work
from engine.optimize import optimize


def _optimize(work: Work) -> None:
    work.give(FOLDED, optimize(work[ORIGINAL], work.config.march.value, work.config.model_parameters.compatibility))


OPTIMIZE = Stage(
    name="optimize",
    run=_optimize,
    reads=(ORIGINAL,),
    gives=(FOLDED,),
    parameters=("model_parameters.march", "model_parameters.compatibility"),
)
