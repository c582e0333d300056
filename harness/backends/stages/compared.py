"""Running a quantised model on the evaluation images, compared with the float model's outputs on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.backends.outputs import images_first
from harness.trials.comparison import FidelityMeter

if TYPE_CHECKING:
    from harness.datasets.base import Samples, Split

Array = NDArray[Any]

IMAGES_AT_ONCE = 32
"""Evaluation images simulated and compared at a time."""


def run_compared(
    run: Callable[[Samples], list[Array]], split: Split, count: int, floats: Sequence[Array]
) -> tuple[list[Array], FidelityMeter]:
    """Outputs of ``run`` on the first ``count`` samples, compared with the float model's on the way."""
    meter = FidelityMeter()
    collected: list[list[Array]] = []
    for start in range(0, count, IMAGES_AT_ONCE):
        stop = min(start + IMAGES_AT_ONCE, count)
        outputs = images_first(run(split.take(start, stop)), stop - start)
        meter.update(outputs, [output[start:stop] for output in floats])
        collected.append(outputs)
    return [np.concatenate(parts) for parts in zip(*collected, strict=True)], meter
