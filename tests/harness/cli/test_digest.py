"""``ptqlab digest``."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.errors import CalibrationDataError, ConfigError
from harness.cli.digest import digest
from harness.cli.main import app
from harness.datasets import open_dataset
from tests.harness.test_user_code import own, run, write

__all__ = ["own"]


def test_the_digest_command_keeps_comments_and_names_the_option_that_changed(own: Path) -> None:
    write(own, {"adapter": "own_pictures:Noise", "options": {"seed": 1}}, {"name": "top1"})
    card = own / "datasets/mine.yaml"
    run("digest", "mine", "--write")
    text = card.read_text()
    assert text.startswith("# written by hand\n")
    assert open_dataset("mine").digest in text
    assert "holds this already" in run("digest", "mine", "--write")
    card.write_text(text.replace("seed: 1", "seed: 2"))
    with pytest.raises(CalibrationDataError, match=r"changed since: options\.seed \(1 -> 2\)"):
        open_dataset("mine")
    done = CliRunner().invoke(app, ["digest", "nine"])
    assert done.exit_code != 0
    assert "did you mean 'mine'" in str(done.exception)


def test_a_data_set_has_no_float_score(own: Path) -> None:
    write(own, {"adapter": "own_pictures:Noise"}, {"name": "top1"})
    with pytest.raises(ConfigError, match="a data set has no float score"):
        digest("mine", score=True)
