"""A sweep in Markdown, for the page of a CI job, and as annotations that CI systems show beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from engine.visible import in_markdown
from harness.gates.verdicts import TrialVerdict, Verdict
from harness.report.results import Sweep

SUMMARY_FILE = "summary.md"
_MOST_TRIALS = 50
"""Trials that are named one by one."""
_MOST_ANNOTATIONS = 10
"""As many as GitHub shows of one step."""


def markdown(sweep: Sweep) -> str:
    """Verdict, counts, what does not pass and why, what changed."""
    summary, explanation = sweep.summary, sweep.summary.explanation
    against = f"compared with `{sweep.baseline.name}`" if sweep.baseline else "compared with no baseline"
    lines = [
        f"## {summary.suite.name}: {sweep.verdict.value}",
        "",
        f"{len(sweep.results)} trials, {len(sweep.failed)} failed, {summary.reused} reused, {summary.seconds:.0f} s, "
        f"{against}; engine {summary.engine}" + (f", models at {summary.commit}" if summary.commit else ""),
        "",
    ]
    bad = list(_bad(sweep))
    if bad:
        lines += ["| trial | verdict | why |", "|---|---|---|"]
        lines += [
            f"| {_cell(each.trial)} | {each.verdict.value} | {_cell(_why(sweep, each))} |"
            for each in bad[:_MOST_TRIALS]
        ]
        lines += [f"\nand {len(bad) - _MOST_TRIALS} more"] if len(bad) > _MOST_TRIALS else []
        lines.append("")
    if explanation is not None and explanation.shared:
        lines += ["Changed since the baseline:", "", *(f"- {_cell(str(cause))}" for cause in explanation.shared), ""]
    if explanation is not None and explanation.bisection is not None:
        found = explanation.bisection
        lines += [f"Bisection of {_cell(found.trial)}: {_cell(found.finding)}", ""]
    return "\n".join(lines)


def github_annotations(sweep: Sweep) -> list[str]:
    """Lines that GitHub Actions takes out of a log and shows as annotations."""
    found = []
    for each in list(_bad(sweep))[:_MOST_ANNOTATIONS]:
        level = "error" if each.verdict in (Verdict.REGRESSION, Verdict.ERROR) else "warning"
        title = f"{each.verdict.value}: {each.trial}"
        found.append(f"::{level} title={_property(title)}::{_data(_why(sweep, each))}")
    return found


def gitlab_annotations(sweep: Sweep, report: str) -> str:
    """A report of the kind ``annotations`` for GitLab: links to the page, named by verdict and trials.

    Args:
        sweep: to report.
        report: address of the page.
    """
    labels = [f"{sweep.summary.suite.name}: {sweep.verdict.value}"]
    labels += [f"{each.verdict.value}: {each.trial}" for each in list(_bad(sweep))[:_MOST_ANNOTATIONS]]
    links = [{"external_link": {"label": label, "url": report}} for label in labels]
    return json.dumps({"ptqlab": links}, indent=1) + "\n"


def _bad(sweep: Sweep) -> Iterator[TrialVerdict]:
    return (verdict for verdict in sweep.verdicts if not verdict.verdict.is_good)


def _why(sweep: Sweep, verdict: TrialVerdict) -> str:
    """What a verdict's checks say, and the headline of its causes."""
    causes = sweep.summary.explanation.of(verdict.trial) if sweep.summary.explanation else None
    return "\n".join([verdict.message, *([causes.headline] if causes else [])])


def _cell(text: str) -> str:
    """Text that may stand in a cell of a table: no line breaks, bars or markup of its own."""
    return in_markdown(text).replace("\n", "<br>")


def _data(text: str) -> str:
    """As GitHub's workflow commands want their message."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """As they want their properties."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
