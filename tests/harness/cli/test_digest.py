"""``ptqlab digest``."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
import yaml
from onnx import numpy_helper
from typer.testing import CliRunner

from engine.errors import CalibrationDataError, ConfigError
from harness.cli.digest import digest
from harness.cli.main import app
from harness.datasets import open_dataset
from harness.zoo.cards import load_card
from tests.harness.files.test_user_code import own, run, write

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
    with pytest.raises(ConfigError, match="did you mean 'mine'"):
        digest("nine")


def test_all_that_follows_from_a_retrained_network_and_changed_data(own: Path) -> None:
    """The float score too, and what is worse is remarked on; without ``--write`` everything stays as it is."""
    suite = write(own, {"adapter": "own_pictures:Noise", "options": {"seed": 0}}, {"name": "top1"})
    card, network = own / "suites/zoo/tiny.yaml", own / "suites/zoo/tiny.onnx"
    assert "float_score: 1.0000" in run("digest", str(suite), "--write")
    text = card.read_text()
    model = onnx.load(network)
    for weights in model.graph.initializer:
        weights.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(weights), weights.name))
    onnx.save(model, network)
    shown = run("digest", str(own / "suites"))
    assert "digest: " in shown
    assert "nothing was written" in shown
    assert card.read_text() == text
    assert "zoo/tiny.yaml: written" in run("digest", "tiny", "--write")
    assert load_card("tiny").model_path() == network
    data = own / "datasets/mine.yaml"
    data.write_text(data.read_text().replace("seed: 0", "seed: 3"))
    changed = run("digest", "mine", "--write")
    assert "determinants.options.seed: 0 → 3" in changed
    assert "measuring the float score of tiny" in changed


def test_a_loss_of_the_float_model_is_remarked_on(own: Path) -> None:
    suite = write(own, {"adapter": "own_pictures:Noise"}, {"name": "top1", "labels": "float"})
    run("digest", str(suite), "--write")
    card = own / "suites/zoo/tiny.yaml"
    card.write_text(card.read_text().replace("labels: float", "labels: data"))
    assert "the float model is worse than before (top1 1.0000 → " in run("digest", str(card))


def test_a_score_that_cannot_be_measured_is_left(own: Path) -> None:
    write(own, {"adapter": "own_pictures:Noise"}, {"name": "top1"})
    (own / "suites/zoo/tiny.onnx").unlink()
    assert "WARNING: the float score of tiny is as it was: model tiny" in run("digest", "mine", "--write")


def test_a_new_card_needs_neither_digest_nor_score_nor_splits(own: Path) -> None:
    write(own, {"adapter": "own_pictures:Noise"}, {"name": "own_pictures:closeness", "labels": "float"})
    for path, absent in (
        (own / "datasets/mine.yaml", ("digest", "splits", "image")),
        (own / "suites/zoo/tiny.yaml", ("digest", "float_score")),
    ):
        content = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump({key: value for key, value in content.items() if key not in absent}))
        assert f"{path}: written" in CliRunner().invoke(app, ["digest", path.stem, "--write"]).output
        assert set(absent) <= set(yaml.safe_load(path.read_text()))
    assert open_dataset("mine").image_format.height == 16
    card = load_card("tiny")
    assert card.float_score.value == 1.0
    assert card.digest == card.digest_of_file()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "    raise KeyError('absent')",
            "metric 'own_pictures:closeness' raised KeyError: 'absent' .*own_pictures.py, line",
        ),
        ("    return =", "dataset adapter 'own_pictures:Noise' raised SyntaxError: invalid syntax"),
        (
            "\n\nclass Broken(ArraySplit):\n    def _images(self, _):\n        return [][0]\n\n\nArraySplit = Broken",
            "dataset adapter 'own_pictures:Broken' raised IndexError: list index out of range .*own_pictures.py, line",
        ),
    ],
)
def test_what_the_users_own_code_raises_is_one_message(own: Path, code: str, message: str) -> None:
    suite = write(own, {"adapter": "own_pictures:Noise"}, {"name": "own_pictures:closeness", "labels": "float"})
    module = own / "suites/zoo/own_pictures.py"
    module.write_text(module.read_text().replace("    return (above == targets).mean(axis=1)", code))
    done = CliRunner().invoke(app, ["digest", str(suite), "--write"])
    assert isinstance(done.exception, ConfigError)
    assert re.search(message, str(done.exception))
