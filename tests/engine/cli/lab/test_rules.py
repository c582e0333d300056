"""``ptqlab rules``: the list, one rule, and evidence from recorded conversions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.cli.lab.rules import app
from engine.conformance import rule_evidence
from engine.conformance.cases import RecordedCase
from engine.errors import ConfigError, ModelError
from engine.rulebook.book import RULES
from engine.rulebook.page import rules_page

RECORDED = Path(__file__).resolve().parents[3] / "parity" / "recorded" / "yuv"


def output(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_list_has_every_rule_in_each_form() -> None:
    text = output()
    assert all(name in text for name in RULES)
    assert [each["id"] for each in json.loads(output("--json"))] == list(RULES)
    assert output("--markdown") == rules_page()


def test_a_rule_is_shown_with_its_pattern_and_evidence() -> None:
    text = output("show", "device.mean-of-normalisation")
    assert "A mean that a difference or a reciprocal root reads is quantised" in text
    assert "when: is a ReduceMean and is read by a Sub or HzRsqrt" in text
    assert "chips: bernoulli2" in text
    assert "over: device.of-rank-3" in text
    assert "evidence: " in text


def test_an_unknown_rule_is_an_error_that_names_a_near_one() -> None:
    from harness.cli.main import app as ptqlab

    result = CliRunner().invoke(ptqlab, ["rules", "show", "device.lackin"])
    assert result.exit_code != 0
    assert "did you mean 'device.lacking'" in str(result.exception)


def test_cases_that_say_nothing_are_named_and_alone_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(case: RecordedCase) -> None:
        raise ModelError(f"{case.name} is no network")

    monkeypatch.setattr(rule_evidence, "subject_of", refuses)
    file = tmp_path / "evidence.json"
    result = CliRunner().invoke(app, ["evidence", str(RECORDED), "-o", str(file)])
    assert isinstance(result.exception, ConfigError)
    assert "no recorded conversion in" in str(result.exception)
    assert "is no network" in result.stderr
    assert not file.exists()


def test_evidence_of_recorded_conversions_is_written(tmp_path: Path) -> None:
    file = tmp_path / "evidence.json"
    text = output("evidence", str(RECORDED), "-o", str(file), "--most-nodes", "0")
    assert f"{file}: " in text
    assert json.loads(file.read_text()).keys() == RULES.keys()
