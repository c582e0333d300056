"""``ptqlab tune --model``: the search on a card's model, by the card's metric."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from engine.cli.lab.tune import CHOSEN, FLOAT, INT8
from harness.cli.main import app
from harness.cli.tune import SCORED_SAMPLES, TASK
from harness.files import paths


def call(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["tune", *arguments])
    assert result.exit_code == code, result.output
    return f"{result.output}{result.exception or ''}"


def test_the_metric_of_a_card_chooses_under_the_budget(tmp_path: Path) -> None:
    """The search keeps what improves the metric, or the cosine at an equal metric, and stays in the budget."""
    given = ("--model", "mnist_lenet", "--metric", TASK, "--set", "calibration_type=kl", "--samples", "20")
    shown = call(*given, "--trials", "4", "--json", "-o", str(tmp_path / "fragment.yaml"))
    found = json.loads(shown[shown.index("{\n") :])
    int8, chosen = found["mixes"][INT8], found["mixes"][CHOSEN]
    assert set(found["accuracies"]) == {FLOAT, *found["mixes"]}
    assert (chosen["task"], chosen["cosine"]) >= (int8["task"], int8["cosine"])
    assert chosen["task"] * 20 == pytest.approx(round(chosen["task"] * 20))
    assert chosen["latency_us"] <= found["latency_budget_us"] == pytest.approx(1.25 * int8["latency_us"])
    written = yaml.safe_load((tmp_path / "fragment.yaml").read_text()) or {}
    assert written == found["fragment"]


def test_the_help_says_how_many_samples_are_taken() -> None:
    assert f"evaluation samples of a card: {SCORED_SAMPLES}" in " ".join(call("--help").replace("│", " ").split())


@pytest.mark.nightly
def test_boxes_choose_where_a_card_detects() -> None:
    shown = call("--model", "scene_yolo", "--metric", "task", "--samples", "4", "--trials", "3", "--latency", "1000")
    assert "int8 metric " in shown
    assert "map50 over int8: " in shown
    assert "as a setting of a suite: int16: {nodes: [" in shown


def test_without_a_metric_a_card_is_tuned_by_similarity() -> None:
    shown = call(
        "--model", str(paths.bundled("suites") / "zoo" / "mnist_lenet.yaml"), "--samples", "4", "--trials", "2"
    )
    assert "top1" in shown
    assert "int8 metric" not in shown
    assert "top1 over int8" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give NETWORK and its --config, or a card with --model"),
        (("--metric", "task"), "--metric task belongs to --model CARD"),
        (("--set", "asymmetric=true"), "--set belongs to --model CARD"),
        (("--model", "mnist_lenet", "--metric", "top1"), "--metric top1: with --model, task is allowed"),
        (("--model", "mnist_lenet", "--by-metric"), "--by-metric stands beside --model; the card has it"),
        (("--model", "mnist_lenett"), "did you mean 'mnist_lenet'?"),
        (("--model", "smoke"), "unknown model card 'smoke'"),
        (("--model", "mnist_lenet", "--set", "calibration_typ=kl"), "did you mean 'calibration_type'?"),
        (("--model", "mnist_lenet", "--set", "calibration_type=kll"), "--set: calibration_type: 'kll'"),
        (("--model", "mnist_lenet", "--set", "kl"), "--set kl: give NAME=VALUE"),
        (("--model", "mnist_lenet", "--set", "int16=all"), "tune looks for int16 nodes"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(app, ["tune", *arguments])
    assert result.exit_code != 0
    assert message in f"{result.output}{result.exception}"


def test_a_file_that_is_read_is_not_overwritten(tmp_path: Path) -> None:
    """The file is no model: whatever read it would say so."""
    source = tmp_path / "given.bin"
    source.write_bytes(b"content")
    (tmp_path / "other").symlink_to(source)
    for output in (source, tmp_path / "other"):
        assert "would overwrite" in call(str(source), "--config", str(source), "--output", str(output), code=1)
        assert source.read_bytes() == b"content"
