"""Suites made by hand, and the models that they select."""

from __future__ import annotations

from typing import Any

from engine.terms import InputType
from harness.suites.expansion import ModelFacts, expand
from harness.suites.suite import Suite
from tests.harness import finished

TAGS = {
    "mnist_a": ["small", "dataset:mnist"],
    "mnist_b": ["small", "residual"],
    "scene": ["detection", "task:detection"],
}
FACTS = {name: ModelFacts(labels, (InputType.RGB, InputType.NV12), 300) for name, labels in TAGS.items()}


def suite(**changes: Any) -> Suite:
    return finished.suite(**{"models": "mnist_a", **changes})


def ids(definition: Suite) -> list[str]:
    return [point.id for point in expand(definition, FACTS).points]
