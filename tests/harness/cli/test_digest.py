"""``ptqlab digest``."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from engine.errors import CalibrationDataError, ConfigError
from harness.cli.digest import digest
from harness.cli.main import app
from harness.datasets import open_dataset
from harness.zoo.cards import load_card
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


def test_a_new_card_needs_neither_digest_nor_score_nor_splits(own: Path) -> None:
    write(own, {"adapter": "own_pictures:Noise"}, {"name": "own_pictures:closeness", "labels": "float"})
    for path, absent in (
        (own / "datasets/mine.yaml", ("digest", "splits", "image")),
        (own / "suites/zoo/tiny.yaml", ("digest", "float_score")),
    ):
        content = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump({key: value for key, value in content.items() if key not in absent}))
        assert "written" in CliRunner().invoke(app, ["digest", path.stem, "--write"]).output
        assert set(absent) <= set(yaml.safe_load(path.read_text()))
    assert open_dataset("mine").image_format.height == 16
    card = load_card("tiny")
    assert card.float_score.value == 1.0
    assert card.digest == card.digest_of_file()
