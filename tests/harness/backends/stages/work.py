"""Running one stage alone."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from engine.config import Config
from engine.convert.runner import Item, Stage, Values, Work
from harness.trials.configuration import configuration
from harness.zoo.cards import load_card
from tests.harness import fakes

CARD = load_card("mnist_lenet")


@cache
def config() -> Config:
    """A conversion of the bundled LeNet."""
    return configuration(CARD, fakes.spec(CARD.name), (), Path())


def given_by(stage: Stage, values: dict[Item[Any], Any]) -> Values:
    """What ``stage`` gives where it reads ``values``; it may read nothing else, and what it does not declare fails."""
    work = Work(stage, config(), values.__getitem__)
    stage.run(work)
    return work.given()
