"""The page of one trial."""

from __future__ import annotations

from engine.rulebook.known import Known
from harness.report.templates import template
from harness.report.trial_page import render_trial
from harness.trials.figures import BrokenOutputs
from tests.harness import fakes


def test_the_page_shows_figures_nodes_and_files() -> None:
    files = {"config.yaml": b"march: <bayes-e>", "worst.png": b""}
    text = render_trial(fakes.result(fakes.spec()), fakes.NODES, files).decode()
    assert "march: &lt;bayes-e&gt;" in text
    assert '<img src="worst.png"' in text
    for words in ("HzSQuantizedConv", "no operator", "accuracy.delta", "-0.05"):
        assert words in text
    assert template("trial.html.j2").name == "trial.html.j2"


def test_warnings_stand_on_the_page_where_there_are_any() -> None:
    plain = fakes.result(fakes.spec())
    heading = "<h2>Broken outputs and doubtful calibration data</h2>"
    assert heading not in render_trial(plain, fakes.NODES, {}).decode()
    broken = BrokenOutputs(outputs=("y",), text="Output <y> is broken.")
    text = render_trial(plain.model_copy(update={"doubts": ("few",), "broken": broken}), fakes.NODES, {}).decode()
    assert text.index(heading) < text.index("calibration data: few") < text.index("Output &lt;y&gt; is broken.")


def test_how_far_the_conversion_is_known_stands_on_the_page() -> None:
    plain = fakes.result(fakes.spec())
    heading = "<h2>How far the conversion is known</h2>"
    assert heading not in render_trial(plain, fakes.NODES, {}).decode()
    known = Known.of([("a", ""), ("<b>", "x")])
    text = render_trial(plain.model_copy(update={"known": known}), fakes.NODES, {}).decode()
    assert text.index(heading) < text.index("1 by x: &lt;b&gt;. ptqlab conformance hunt")
