"""What was built, run on our simulator beside what was measured."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.convert.items import DATA, QUANTIZED, THREADS
from engine.convert.runner import Given, Run
from engine.evaluate.similarity import integer_outputs
from engine.ir import to_bytes
from harness.backends.items import OUTPUTS, SCORED
from harness.shipping.record import BuiltScores, Matched, Outputs

Array = NDArray[Any]


def on_evaluation_images(run: Run, built: ir.Model) -> Outputs:
    """Both models on the evaluation images of the trial that ``run`` is, outputs compared bit for bit, and scored.

    Args:
        run: of the trial; it may have taken fewer images.
        built: the toolchain's quantised model.
    """
    other = run.replacing({QUANTIZED: Given(built, hashlib.sha256(to_bytes(built)).hexdigest())})
    (ours, _), (theirs, _) = run[OUTPUTS], other[OUTPUTS]
    measured, found = run[SCORED], other[SCORED]
    scores = BuiltScores(
        metric=measured.accuracy.metric,
        float_value=measured.accuracy.float_value,
        measured=measured.accuracy.value,
        built=found.accuracy.value,
        agreement=found.fidelity.agreement,
        cosine=found.fidelity.cosine,
    )
    return Outputs(samples="images", equal=equal_samples(ours, theirs), scores=scores)


def on_calibration_samples(run: Run, built: ir.Model) -> Outputs | None:
    """Both models on the calibration data of the conversion that ``run`` is; None where it has none."""
    data = run[DATA]
    if data is None:
        return None
    ours, theirs = (integer_outputs(model, data, run[THREADS]) for model in (run[QUANTIZED], built))
    return Outputs(samples="calibration samples", equal=equal_samples(ours, theirs))


def equal_samples(ours: Sequence[Array], theirs: Sequence[Array]) -> Matched:
    """Number of samples on which all outputs are equal bit for bit.

    Args:
        ours, theirs: an array per output, samples along the first dimension.
    """
    total = len(ours[0])
    if len(ours) != len(theirs) or any(a.shape != b.shape for a, b in zip(ours, theirs, strict=True)):
        return Matched(equal=0, total=total)
    same = np.ones(total, bool)
    for a, b in zip(ours, theirs, strict=True):
        equal = (a == b) | ((a != a) & (b != b))  # NaN equals NaN
        same &= equal.reshape(total, -1).all(axis=1)
    return Matched(equal=int(same.sum()), total=total)
