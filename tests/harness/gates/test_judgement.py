"""The judgement of a sweep: worst verdict, further checks, which baseline it was made with."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from engine.errors import ConfigError
from harness.gates.baseline import Baseline, save_baseline
from harness.gates.judgement import Judgement, References, digest_of
from harness.gates.verdicts import Check, TrialVerdict, Verdict
from harness.trials.trial import TrialStore
from tests.harness import fakes
from tests.harness.finished import suite

SUITE = suite(version=3)
GOOD, BAD = Check("accuracy", Verdict.PASS, "equal"), Check("drift", Verdict.REGRESSION, "fell")


def test_further_checks_join_those_of_their_trials() -> None:
    judgement = Judgement(verdicts=(TrialVerdict("a", (GOOD,)), TrialVerdict("b", (GOOD,))))
    assert judgement.verdict is Verdict.PASS
    more = judgement.with_checks({"b": BAD, "c": BAD})
    assert more.of("a").checks == (GOOD,)
    assert more.of("b").checks == (GOOD, BAD)
    assert more.of("c").checks == ()
    assert (more.verdict, judgement.verdict) == (Verdict.REGRESSION, Verdict.PASS)


def test_a_judgement_survives_json() -> None:
    judgement = Judgement(baseline=Path("b.json"), baseline_digest="d", verdicts=(TrialVerdict("a", (GOOD, BAD)),))
    assert Judgement.model_validate_json(judgement.model_dump_json()) == judgement


def test_without_a_baseline_there_is_no_gate(tmp_path: Path) -> None:
    result = fakes.result(fakes.spec())
    found = References().judge(SUITE, [result], TrialStore(tmp_path), [result.spec])
    assert (found.verdict, found.baseline, found.baseline_digest, found.anchor) == (Verdict.NO_GATE, None, "", None)


def test_the_baseline_is_named_with_its_digest(tmp_path: Path) -> None:
    file, anchor = tmp_path / "b.json", tmp_path / "a.json"
    for path in (file, anchor):
        save_baseline(Baseline(suite="mine", version=3, sweep=path.stem), path)
    store = TrialStore(tmp_path)
    failed = fakes.failed(fakes.spec())
    found = References(baseline=file, anchor=anchor).judge(SUITE, [failed], store, [failed.spec])
    assert found.verdict is Verdict.ERROR
    assert found.baseline_digest == hashlib.sha256(file.read_bytes()).hexdigest() == digest_of(file)
    assert (found.baseline, found.anchor) == (file, anchor)


def test_a_baseline_or_anchor_of_another_suite_is_refused(tmp_path: Path) -> None:
    mine, other = tmp_path / "b.json", tmp_path / "o.json"
    save_baseline(Baseline(suite="mine", version=3), mine)
    save_baseline(Baseline(suite="other", version=3), other)
    for references in (References(baseline=other), References(baseline=mine, anchor=other)):
        with pytest.raises(ConfigError, match="belongs to suite other version 3"):
            references.judge(SUITE, [], TrialStore(tmp_path), [])
