"""The page of a sweep."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from harness.gates.baseline import save_baseline, updated_baseline
from harness.gates.judgement import References
from harness.report.page import _changes, _counts, packed, render
from harness.report.results import Sweep
from harness.trials.trial import Outcome, TrialStore
from tests.harness import fakes
from tests.harness.report.judged import judged


def unpacked(text: str) -> str:
    return gzip.decompress(base64.b64decode(text)).decode()


class _Page(HTMLParser):
    """Collects what a page would load, its texts, and the JSON in it."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.data: dict[str, str] = {}
        self.rows = 0
        self._script: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag in ("script", "img", "iframe") and found.get("src"):
            self.loads.append(str(found["src"]))
        if tag == "link":
            self.loads.append(str(found.get("href")))
        self._script = found.get("id") if tag == "script" else None
        self.rows += tag == "tr"

    def handle_data(self, data: str) -> None:
        if self._script:
            self.data[self._script] = self.data.get(self._script, "") + data


def test_the_page_is_whole_and_loads_nothing(sweep: Sweep, tmp_path: Path) -> None:
    text = render(sweep, tmp_path)
    page = _Page()
    page.feed(text)
    assert page.loads == []
    data = json.loads(unpacked(page.data["data"]))
    scatter, heat, table = (data[name] for name in ("scatter", "heat", "table"))
    points = [trace for trace in scatter["data"] if trace["mode"] == "markers"]
    assert [trace["name"] for trace in points] == ["one", "two"]
    assert heat["data"][0]["text"] == [["-5.00", "-2.00"], ["-3.00", ""], ["", "+0.00"]]
    assert text.index("ERROR") < text.index("Accuracy against latency")
    assert "no &lt;b&gt;rule&lt;/b&gt; for Foo" in text
    assert "<b>rule" not in text
    assert page.rows == 2 + 1 + 2  # what does not pass, heading of the trials, shared stages
    assert [row["values"][3] for row in table["rows"]] == ["max", "kl", "max", "kl", "max-int16.all"]
    assert table["rows"][3]["failed"] == "failed in stage quantize (refused): no <b>rule</b> for Foo"
    assert {choice["name"]: choice["levels"] for choice in table["filters"]} == {
        "model": ["one", "two"],
        "calibration_type": ["max", "kl"],
        "int16": ["none", "all"],
    }
    assert text.index("What would be chosen") < text.index("Effects of settings") < text.index("<h2>Trials")
    assert len(text) < 2.5e6


def compared(sweep: Sweep, tmp_path: Path) -> Sweep:
    """``sweep`` against a baseline in which one figure lies half its tolerance away; its trials have node tables."""
    store = TrialStore(tmp_path / "trials")
    for result in sweep.results:
        store.put(Outcome(result, fakes.NODES if result.ok else (), {"per_sample": fakes.hits(36)}))
    good = [result for result in sweep.results if result.ok]
    accepted = updated_baseline(None, sweep.summary.suite, good, store)
    first = good[0].spec.id
    figures = dict(accepted.trials[first].figures)
    figures["latency.ms"] = figures["latency.ms"].model_copy(update={"value": 1.005})
    trial = accepted.trials[first].model_copy(update={"figures": figures})
    path = tmp_path / "baseline.json"
    save_baseline(accepted.model_copy(update={"trials": {**accepted.trials, first: trial}}), path)
    return judged(sweep, References(baseline=path), tmp_path / "trials")


def test_the_page_says_what_changed_since_the_baseline(sweep: Sweep, tmp_path: Path) -> None:
    text = render(compared(sweep, tmp_path), tmp_path)
    assert "1 figures differ" in text
    assert "-0.005" in text


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_the_page_works_in_a_browser(sweep: Sweep, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(render(compared(sweep, tmp_path), tmp_path))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000", "--dump-dom"]
    finished = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    drawn = finished.stdout
    for plot in ("effects", "parallel", "scatter", "heat", "profile"):
        assert re.search(rf'id="{plot}" class="[^"]*js-plotly-plot', drawn), f"{plot} was not drawn"
    assert drawn.count("<option") == 2 * 4 + 3 * 3  # two trials side by side, a filter by each setting
    assert "5 trials, page 1 of 1" in drawn


def test_a_sweep_whose_budget_ended_at_once_has_a_page(sweep: Sweep, tmp_path: Path) -> None:
    text = render(judged(Sweep(sweep.summary.model_copy(update={"choices": ()}), ()), References(), tmp_path), tmp_path)
    assert text.count("not computed: the suite&#39;s budget was used up") == len(sweep.summary.trials)


def test_changes_stand_by_their_share_of_the_tolerance(sweep: Sweep, tmp_path: Path) -> None:
    against = compared(sweep, tmp_path)
    (change,) = _changes(against)
    assert (change["figure"], change["before"], change["now"]) == ("latency.ms", 1.005, 1.0)
    assert change["change"] == pytest.approx(-0.005)
    assert _changes(sweep) == []


def test_verdicts_are_counted_the_worst_first(sweep: Sweep) -> None:
    assert list(_counts(sweep).items()) == [("ERROR", 1), ("NO GATE", 4)]


def test_what_is_packed_has_no_letter_of_markup_and_comes_out_again() -> None:
    text = '{"a": "</script><b>é"}'
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", packed(text))
    assert packed(text) == packed(text)
    assert unpacked(packed(text)) == text
