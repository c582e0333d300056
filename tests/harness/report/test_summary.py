"""A sweep in Markdown and as annotations."""

from __future__ import annotations

from harness.gates.verdicts import Verdict
from harness.report.summary import github_annotations, markdown
from tests.harness.sweeps.test_announcing import sweep


def test_what_passes_is_short() -> None:
    text = markdown(sweep(Verdict.PASS))
    assert text.startswith("## mine: PASS\n\n1 trials, 0 failed")
    assert "|" not in text
    assert github_annotations(sweep(Verdict.PASS)) == []


def test_what_does_not_pass_is_a_row_with_its_cause() -> None:
    text = markdown(sweep())
    assert "| net/bayes-e/max | REGRESSION | cosine: REGRESSION: 0.9, baseline 1 \\| x<br>engine changed |" in text


def test_an_improvement_is_a_warning() -> None:
    (line,) = github_annotations(sweep(Verdict.IMPROVEMENT))
    assert line.startswith("::warning title=IMPROVEMENT%3A net/bayes-e/max::")
