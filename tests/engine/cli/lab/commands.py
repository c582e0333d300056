"""How tests call the commands of ``ptqlab``."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from harness.cli.main import app
from harness.zoo.cards import load_card

MARCHES = ("bernoulli2", "bayes", "bayes-e")


def model(name: str = "scene_yolo") -> str:
    """The path of a bundled network."""
    return str(load_card(name).model_path())


def printed(*arguments: str) -> Any:
    """What a command prints with ``--json``."""
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
