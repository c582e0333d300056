"""``ptqlab model``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.ir import load_model
from harness.cli.main import app
from harness.cli.model import model
from harness.trials.sums import write_sums
from tests.harness.test_user_code import own, run, sweep, write

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
