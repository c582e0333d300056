"""The stages that take digests of what other stages give, so that two nights can tell which artefact differs first."""

from __future__ import annotations

import hashlib

from engine.convert.items import CALIBRATED, FOLDED, OPTIMIZED, ORIGINAL, PLACED, QUANTIZED, SOURCE
from engine.convert.runner import Stage, Work
from engine.ir import to_bytes
from harness.backends.items import (
    CARD,
    DATA_DIGESTS,
    DATASET,
    EVALUATION_SAMPLES,
    FLOAT_DIGESTS,
    FLOAT_OUTPUTS,
    MODEL_DIGESTS,
    SAMPLES,
)
from harness.datasets.base import Samples, SceneTarget, Targets, sha256_of
from harness.trials.artefacts import DIGITS, Artefact
from harness.zoo.cards import Labels

_IMAGES_AT_ONCE = 64


def _of_data(work: Work) -> None:
    split, count = work[DATASET].split(work[CARD].dataset.evaluation.split), work[EVALUATION_SAMPLES]
    seen, labelled = hashlib.sha256(), work[CARD].metric.labels is Labels.DATA
    for start in range(0, count, _IMAGES_AT_ONCE):
        stop = min(start + _IMAGES_AT_ONCE, count)
        seen.update(_of_samples(split.take(start, stop)).encode())
        if labelled:
            seen.update(_of_targets(split.targets(start, stop)))
    work.give(
        DATA_DIGESTS,
        {
            Artefact.CALIBRATION_IMAGES.value: _of_samples(work[SAMPLES])[:DIGITS],
            Artefact.EVALUATION_IMAGES.value: seen.hexdigest()[:DIGITS],
            Artefact.FLOAT_OUTPUTS.value: sha256_of(*work[FLOAT_OUTPUTS])[:DIGITS],
        },
    )


def _of_samples(samples: Samples) -> str:
    return sha256_of(*(samples[part] for part in sorted(samples)))


def _of_targets(targets: Targets) -> bytes:
    """Digest of targets of any kind: boxes and masks, texts, or classes."""
    parts = [
        sha256_of(target.boxes, target.classes, target.mask) if isinstance(target, SceneTarget) else str(target)
        for target in targets
    ]
    return hashlib.sha256("\n".join(parts).encode()).digest()


def _of_float(work: Work) -> None:
    models = {Artefact.SOURCE: SOURCE, Artefact.ORIGINAL: ORIGINAL, Artefact.FOLDED: FOLDED}
    work.give(FLOAT_DIGESTS, {name.value: _digest(to_bytes(work[item])) for name, item in models.items()})


def _of_models(work: Work) -> None:
    found = {
        Artefact.OPTIMIZED: work[OPTIMIZED],
        Artefact.PLACED: work[PLACED].model,
        Artefact.CALIBRATED: work[CALIBRATED],
        Artefact.QUANTIZED: work[QUANTIZED],
    }
    work.give(MODEL_DIGESTS, {name.value: _digest(to_bytes(model)) for name, model in found.items()})


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]


DIGEST_DATA = Stage(
    name="digest data",
    run=_of_data,
    reads=(CARD, DATASET, EVALUATION_SAMPLES, SAMPLES, FLOAT_OUTPUTS),
    gives=(DATA_DIGESTS,),
)
DIGEST_FLOAT = Stage(name="digest float", run=_of_float, reads=(SOURCE, ORIGINAL, FOLDED), gives=(FLOAT_DIGESTS,))
DIGEST_MODELS = Stage(
    name="digest models", run=_of_models, reads=(OPTIMIZED, PLACED, CALIBRATED, QUANTIZED), gives=(MODEL_DIGESTS,)
)
