"""``ptqlab model``."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.errors import ConfigError
from engine.ir import load_model
from harness.cli.main import app
from harness.cli.model import model
from harness.trials.sums import write_sums
from harness.zoo.cards import model_cards
from tests.harness.files.test_user_code import own, run, sweep, write

__all__ = ["own"]


def test_the_model_of_a_trial_is_made_again(own: Path) -> None:
    suite = write(own, {"adapter": "own_pictures:Noise"}, {"name": "own_pictures:closeness", "labels": "float"})
    row = sweep(own, suite)
    folder = own / "work/trials" / row["key"]
    assert {"config.yaml", "card.yaml", "environment.txt", "worst.png"} <= {path.name for path in folder.iterdir()}
    words = ["model", row["trial"], "-o", str(own / "out"), "--workdir", str(own / "work")]
    run(*words)
    assert load_model(own / "out/tiny_quantized_model.onnx").graph is not None
    result = folder / "result.json"
    content = json.loads(result.read_text())
    result.write_text(json.dumps(content | {"artefacts": {"quantized": "0" * 24}}))
    write_sums(folder)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "not the model of the trial" in done.output
    result.write_text(json.dumps(content | {"artefacts": {}}))
    write_sums(folder)
    with pytest.raises(Exception, match="no model of the bundled engine is recorded"):
        model(row["trial"], own / "out", own / "work")


@pytest.mark.nightly
def test_a_trial_knows_its_card_where_another_has_its_name(
    own: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = {"name": "own_pictures:closeness", "labels": "float"}
    suite = write(own, {"adapter": "own_pictures:Noise"}, metric)
    row = sweep(own, suite)
    other = tmp_path_factory.mktemp("other")
    shutil.copytree(own / "suites/zoo", other / "zoo")
    card = other / "zoo/tiny.yaml"
    card.write_text(card.read_text().replace("made by a test", "another of the same name"))
    card.write_text(card.read_text().replace("scale_value: 0.01", "scale_value: 0.02"))
    elsewhere = partial(monkeypatch.setenv, "PTQLAB_SUITES", str(other))
    elsewhere()
    monkeypatch.setenv("PTQLAB_DATASETS", "")
    assert model_cards()["tiny"] == card
    for number, trial in enumerate((row["trial"], row["key"])):
        run("model", trial, "-o", str(own / f"out{number}"), "--workdir", str(own / "work"))
        assert (own / f"out{number}/tiny_quantized_model.onnx").is_file()
        elsewhere()  # the command looks in folders of its own from here on
    (own / "suites/zoo/tiny.yaml").unlink()
    done = CliRunner().invoke(app, ["model", row["key"], "-o", str(own / "out"), "--workdir", str(own / "work")])
    assert isinstance(done.exception, ConfigError)
    assert f"the card of model tiny was in {own / 'suites'}" in str(done.exception)
    assert f"cards of this name are {card}, but say something else" in str(done.exception)
    assert not (own / "out").exists()
