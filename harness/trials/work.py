"""How much work trials usually are beside each other, in runs of the float model on one sample."""

from __future__ import annotations

from collections.abc import Iterable

from engine.terms import CalibrationType
from harness.suites.settings import Engine, Int16Kind, Int16Policy
from harness.trials.trial import TrialSpec

SEARCH_SAMPLES = 8
"""Calibration samples that a search for sensitive nodes takes at most."""

_STAGES, _PER_SAMPLE = 15.0, 1.5
"""What a trial takes: the stages of a conversion, and each sample that is simulated and scored. Of a YOLOv8 and a YOLOX
on a machine with other work on it (docs/evidence/estimates.md).
"""
_INT16_SAMPLE = 0.7
"""What a sample takes longer where all nodes are int16: a YOLO11n at 640 on one machine."""
_CALIBRATING = (Engine.BUNDLED, Engine.HB_MAPPER)
"""Engines with the methods of :data:`_METHODS`."""
_METHODS: dict[str, float] = {CalibrationType.KL: 50.0, CalibrationType.DEFAULT: 120.0, CalibrationType.MIX: 200.0}
"""What methods take besides: measured likewise for ``kl``, guessed for ``default`` and ``mix``."""
_SEARCH_SHARE = 0.5
"""Share of a run of the float model that ranking one node takes on one sample: half of the network lies behind it."""
USUAL_NODES = 100
"""Nodes that can be int16 where the model's file cannot be read."""


def usual_work(spec: TrialSpec) -> float:
    """What ``spec`` takes apart from a search for nodes."""
    method = _METHODS.get(spec.settings.calibration_type, 0.0) if spec.settings.engine in _CALIBRATING else 0.0
    sample = _PER_SAMPLE + (_INT16_SAMPLE if spec.settings.int16.kind is Int16Kind.ALL else 0.0)
    return _STAGES + sample * spec.evaluation_samples + method


def search_work(spec: TrialSpec, nodes: int = USUAL_NODES) -> float:
    """What a search for the most sensitive of ``nodes`` nodes takes; 0 where ``spec`` needs none."""
    if not searches(spec):
        return 0.0
    return _SEARCH_SHARE * min(SEARCH_SAMPLES, spec.calibration_samples) * nodes


def searches(spec: TrialSpec) -> bool:
    """Whether ``spec`` needs a search for sensitive nodes."""
    return spec.settings.int16.kind is Int16Kind.TOP_K


def without_int16(spec: TrialSpec) -> str:
    """Label of all settings but int16; those of one label and model share their search."""
    return str(spec.settings.model_copy(update={"int16": Int16Policy()}).label)


def longest_first(specs: Iterable[TrialSpec]) -> list[TrialSpec]:
    """Trials of one preparation in the order in which they end together soonest: the longest first.

    Of those that share a search the first takes it along; the others come where they belong without it, so that they
    seldom wait for it. Those per channel come last of all: they often come to the integers of one per tensor, and would
    wait for it if they ran at the same time. Equal ones keep their order.
    """
    searched: set[str] = set()
    work: dict[str, float] = {}
    found = list(specs)
    for spec in found:
        shared = without_int16(spec)
        work[spec.key] = usual_work(spec) + (0.0 if shared in searched else search_work(spec))
        if searches(spec):
            searched.add(shared)
    return sorted(found, key=lambda spec: (bool(spec.settings.per_channel), -work[spec.key]))
