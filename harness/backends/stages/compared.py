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
"""Evaluation images simulated and compared at a time, where their outputs are small."""
BYTES_AT_ONCE = 16_000_000
"""Of their outputs: what is larger the C library gives back to the system, which clears it before the next use."""


def run_compared(
    run: Callable[[Samples], list[Array]], split: Split, count: int, floats: Sequence[Array]
) -> tuple[list[Array], FidelityMeter]:
    """Outputs of ``run`` on the first ``count`` samples, compared with the float model's on the way."""
    meter = FidelityMeter()
    collected: list[Array] = []
    step = min(IMAGES_AT_ONCE, max(1, BYTES_AT_ONCE // max(1, sum(output[:1].nbytes for output in floats))))
    for start in range(0, count, step):
        stop = min(start + step, count)
        outputs = images_first(run(split.take(start, stop)), stop - start)
        meter.update(outputs, [output[start:stop] for output in floats])
        if not collected:
            collected = [np.empty((count, *output.shape[1:]), output.dtype) for output in outputs]
        for whole, part in zip(collected, outputs, strict=True):
            whole[start:stop] = part
    return collected, meter
