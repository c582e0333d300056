"""What is wrong with a suite is said before any long work, one clear message each."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from engine.chips import March
from engine.errors import ConfigError
from engine.terms import CalibrationType
from harness.cli.main import app
from harness.files import paths
from harness.suites.settings import Engine, Int16Kind, Int16Policy, Settings
from harness.suites.suite import Point, open_suite
from harness.sweeps.checking import kinds, mistakes, refuse_mistakes
from harness.sweeps.planning import expansion_of

Card = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's own suite with a copy of a bundled network."""
    zoo = tmp_path / "suites" / "zoo"
    zoo.mkdir(parents=True)
    shutil.copyfile(paths.bundled("suites") / "zoo" / "mnist_lenet.onnx", zoo / "own.onnx")
    write(tmp_path, lambda card: None, {})
    monkeypatch.setenv("PTQLAB_SUITES", str(tmp_path / "suites"))
    return tmp_path


def write(folder: Path, change: Callable[[Card], Any], suite: dict[str, Any]) -> Path:
    """The card as ``change`` leaves it, and the suite with these keys."""
    card = yaml.safe_load((paths.bundled("suites") / "zoo" / "mnist_lenet.yaml").read_text())
    card |= {"name": "own", "source": {"bundled": "own.onnx"}}
    change(card)
    (folder / "suites" / "zoo" / "own.yaml").write_text(yaml.safe_dump(card))
    content = {"name": "mine", "version": 1, "models": "own", "sweep": {}, **suite}
    path = folder / "suites" / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


MISTAKES: dict[str, tuple[Callable[[Card], Any], str]] = {
    "metric": (lambda card: card["metric"].update(name="top2"), "unknown metric 'top2'; did you mean 'top5'?"),
    "option": (lambda card: card["metric"].update(options={"k": 3}), "unknown key 'k'"),
    "data set": (lambda card: card["dataset"].update(name="mnits"), "unknown dataset 'mnits'; did you mean 'mnist'?"),
    "split": (
        lambda card: card["dataset"].update(evaluation={"split": "evalution", "count": 3}),
        "unknown split 'evalution'; did you mean 'evaluation'?",
    ),
    "count": (
        lambda card: card["dataset"].update(calibration={"split": "calibration", "count": 1000}),
        "1000 images of split 'calibration' asked for, data set mnist has 300",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("command", [["validate"], ["run", "--no-mlflow"], ["nightly"]])
def test_mistakes_in_cards_are_refused_before_anything_runs(folder: Path, name: str, command: list[str]) -> None:
    change, message = MISTAKES[name]
    suite = write(folder, change, {})
    workdir = [] if command == ["validate"] else ["--workdir", str(folder / "work")]
    found = CliRunner().invoke(app, [command[0], str(suite), *command[1:], *workdir])
    assert isinstance(found.exception, ConfigError)
    said = found.output + str(found.exception)
    assert message in " ".join(said.split())
    assert not (folder / "work").exists()


@pytest.mark.parametrize("key", ["calibration_samples", "evaluation_samples"])
def test_more_samples_than_there_are_are_refused(folder: Path, key: str) -> None:
    suite = write(folder, lambda card: None, {key: 5000})
    with pytest.raises(ConfigError, match=f"{key}: 5000: no model of the suite has more than"):
        expansion_of(open_suite(str(suite)))


def test_a_number_that_some_model_has_is_a_cap_for_the_others() -> None:
    assert expansion_of(open_suite("nightly")).points


def test_a_missing_model_file_is_no_mistake_of_the_suite(folder: Path) -> None:
    (folder / "suites" / "zoo" / "own.onnx").unlink()
    definition = open_suite(str(folder / "suites" / "mine.yaml"))
    (problem,) = refuse_mistakes(definition, expansion_of(definition).points)
    assert not problem.is_mistake
    assert "own.onnx cannot be read" in str(problem)
    assert str(problem).startswith("model own: ")
    found = CliRunner().invoke(app, ["validate", str(folder / "suites" / "mine.yaml")])
    assert isinstance(found.exception, ConfigError)
    assert "own.onnx cannot be read" in found.output


def test_another_model_file_than_the_cards_is_named(folder: Path) -> None:
    path = folder / "suites" / "zoo" / "own.onnx"
    path.write_bytes(path.read_bytes() + b"\0")
    (problem,) = mistakes(expansion_of(open_suite(str(folder / "suites" / "mine.yaml"))).points)
    assert "the card was written for" in str(problem)


def test_one_image_runs_through_all_stages(folder: Path) -> None:
    wrong = [{"int16": {"nodes": ["/0/Convolution"]}}, {"int16": {"types": ["Conf"]}}]
    suite = write(folder, lambda card: None, {"sweep": {"calibration_type": ["max", "kl"]}, "trials": wrong})
    found = CliRunner().invoke(app, ["validate", str(suite), "--executor", "serial"])
    assert isinstance(found.exception, ConfigError)
    assert str(found.exception).endswith("2 problems")
    assert "unknown int16 node '/0/Convolution'" in found.output
    assert "unknown int16 operator type 'Conf'; did you mean 'Conv'?" in found.output
    suite = write(folder, lambda card: None, {})
    found = CliRunner().invoke(app, ["validate", str(suite), "--executor", "serial"])
    assert found.exit_code == 0, found.output
    assert "is valid: 1 trials, 1 models" in found.output
    assert "WARNING" not in found.output


@pytest.mark.nightly
def test_doubtful_calibration_data_are_named_unless_it_is_to_be_quick(folder: Path) -> None:
    suite = write(folder, lambda card: None, {"calibration_samples": 3, "sweep": {"calibration_type": ["max", "kl"]}})
    found = CliRunner().invoke(app, ["validate", str(suite), "--executor", "serial"])
    assert found.exit_code == 0, found.output
    warning = "WARNING: model own: calibration data: 3 calibration samples are few: 20 or more are advised"
    assert found.output.count(warning) == 1
    assert "WARNING" not in CliRunner().invoke(app, ["validate", str(suite), "--quick"]).output


def test_a_trial_stands_for_those_that_go_the_same_way() -> None:
    all_int16 = Int16Policy(kind=Int16Kind.ALL)
    settings = [
        Settings(calibration_seed=3),
        Settings(calibration_type=CalibrationType.KL),
        Settings(int16=all_int16),
        Settings(engine=Engine.ONNXRUNTIME),
    ]
    points = [Point(model="a", march=March("bayes-e"), settings=setting) for setting in settings]
    found = [point.settings for point in kinds(points)]
    assert found == [Settings(), Settings(int16=all_int16), Settings(engine=Engine.ONNXRUNTIME)]
