"""The page of one trial."""

from __future__ import annotations

from harness.report.templates import template
from harness.report.trial_page import render_trial
from tests.harness import fakes


def test_the_page_shows_figures_nodes_and_files() -> None:
    files = {"config.yaml": b"march: <bayes-e>", "worst.png": b""}
    text = render_trial(fakes.result(fakes.spec()), fakes.NODES, files).decode()
    assert "march: &lt;bayes-e&gt;" in text
    assert '<img src="worst.png"' in text
    for words in ("HzSQuantizedConv", "no operator", "accuracy.delta", "-0.05"):
        assert words in text
    assert template("trial.html.j2").name == "trial.html.j2"
