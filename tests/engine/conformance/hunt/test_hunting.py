"""The hunt finds what departs, groups it, makes it small, and goes on where it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from engine.chips import MEASURED_MARCHES, March
from engine.conformance import run
from engine.conformance.cases import find_cases
from engine.conformance.hunt.agreement import DrawOutcome
from engine.conformance.hunt.groups import GROUPS, DepartureGroup
from engine.conformance.hunt.hunting import (
    OUTCOMES,
    SETTINGS,
    Findings,
    HuntPlan,
    Watcher,
    hunt,
    settings_for,
)
from engine.conformance.run import MeasurePlan
from engine.errors import ConfigError
from tests.engine.conformance.hunt.asking import ask, start_measuring

SEED, DRAWS = 5, 8


@pytest.fixture(autouse=True)
def _measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_start", start_measuring)


def plan(to: Path, **changes: object) -> HuntPlan:
    settings = settings_for(SEED, MEASURED_MARCHES, None)
    known = HuntPlan(to, settings, None, draws=DRAWS, minutes=None, shrinking=60, measuring=MeasurePlan(1))
    return replace(known, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Findings]:
    folder = tmp_path_factory.mktemp("found")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_start", start_measuring)
        return folder, hunt(plan(folder), ask)


def test_every_draw_has_an_outcome(found: tuple[Path, Findings]) -> None:
    folder, findings = found
    assert [each.index for each in findings.outcomes] == list(range(DRAWS))
    assert len({each.march for each in findings.outcomes}) > 1
    assert all(each.row is not None and not each.failure for each in findings.outcomes)
    assert len((folder / OUTCOMES).read_text().splitlines()) == DRAWS


def test_what_departs_is_grouped_and_as_small_as_it_gets(found: tuple[Path, Findings]) -> None:
    folder, findings = found
    departing = [each for each in findings.outcomes if each.signatures]
    assert 0 < len(departing) < DRAWS
    assert {group.signature.operator for group in findings.groups} == {"MaxPool"}
    assert all(group.shrunk and "MaxPool" in group.operators for group in findings.groups)
    assert all(len(group.operators) <= 1 + len(group.signature.readers) for group in findings.groups)
    assert all("per_channel" not in group.options for group in findings.groups), "the departure does not need it"
    cases = find_cases(folder / GROUPS)
    assert {case.name for case in cases} == {group.name for group in findings.groups}
    for case in cases:
        assert "MaxPool" in [node.op_type for node in onnx.load(case.folder / "net.onnx").graph.node]


def test_a_sentence_says_where_and_with_what(found: tuple[Path, Findings]) -> None:
    _, findings = found
    text = findings.groups[0].sentence(3, DRAWS)
    assert text.startswith(f"3 of {DRAWS} draws depart at calibration at MaxPool")
    assert "smallest network that does has" in text
    assert text.endswith(": calibration: " + findings.groups[0].departure.partition(": ")[2] + ".")


def test_nothing_is_left_of_the_work(found: tuple[Path, Findings]) -> None:
    folder, _ = found
    assert {path.name for path in folder.iterdir()} == {SETTINGS, OUTCOMES, GROUPS}


def test_the_same_folder_is_gone_on_with(found: tuple[Path, Findings], tmp_path: Path) -> None:
    _, whole = found
    first = hunt(plan(tmp_path, draws=3, shrinking=0), ask)
    with (tmp_path / OUTCOMES).open("a") as stream:
        stream.write('{"index": 3, "mar')  # the machine went off
    drawn: list[DrawOutcome] = []
    grouped: list[DepartureGroup] = []
    second = hunt(plan(tmp_path), ask, Watcher(drawn.append, grouped.append))
    assert [each.index for each in drawn] == list(range(3, DRAWS))
    assert second.outcomes == whole.outcomes
    assert second.outcomes[:3] == first.outcomes
    assert {each.signature for each in second.groups} == {each.signature for each in whole.groups}
    assert {each.name for each in grouped if each.shrunk} == {each.name for each in second.groups}
    assert hunt(plan(tmp_path), ask) == second


def test_another_hunt_in_the_folder_is_refused(tmp_path: Path) -> None:
    hunt(plan(tmp_path, draws=1, shrinking=0), ask)
    other = replace(plan(tmp_path), settings=settings_for(6, (March("bayes"),), None))
    with pytest.raises(ConfigError, match="holds a hunt with --seed 5 --march bernoulli2,bayes,bayes-e; go on with"):
        hunt(other, ask)


def test_two_workers_draw_the_same(found: tuple[Path, Findings], tmp_path: Path) -> None:
    _, whole = found
    both = hunt(plan(tmp_path, shrinking=0, measuring=MeasurePlan(2)), ask)
    assert both.outcomes == whole.outcomes


def test_no_time_is_no_draw(tmp_path: Path) -> None:
    assert hunt(plan(tmp_path, minutes=0.0), ask).outcomes == ()


def test_a_draw_without_an_answer_is_no_departure(tmp_path: Path) -> None:
    def refuses(config: Path, to: Path) -> Path:
        raise ConfigError(f"the tool could not be\nstarted for {config.suffix}")

    (outcome,) = hunt(plan(tmp_path, draws=1), refuses).outcomes
    assert outcome.row is None
    assert outcome.failure == "the tool could not be started for .yaml"
    assert outcome.signatures == ()


def test_a_conversion_that_was_cut_off_is_no_answer(tmp_path: Path) -> None:
    def cut(config: Path, to: Path) -> Path:
        folder = ask(config, to)
        (folder / "quantized.onnx").unlink()
        (folder / "result.json").write_text(json.dumps({"rc": -9}))
        return folder

    (outcome,) = hunt(plan(tmp_path, draws=1), cut).outcomes
    assert (outcome.row, outcome.failure) == (None, "the conversion was cut off")


def test_an_interruption_is_passed_on(tmp_path: Path) -> None:
    stopped: list[bool] = []

    def interrupted(config: Path, to: Path) -> Path:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hunt(plan(tmp_path, draws=1), interrupted, Watcher(stopped=lambda: stopped.append(True)))
    assert stopped == [True]
    assert hunt(plan(tmp_path, draws=1, shrinking=0), ask).outcomes[0].index == 0
