"""The page of a sweep."""

from __future__ import annotations

import base64
import gzip
import io
import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.rulebook.known import Known
from harness.gates.baseline import save_baseline, updated_baseline
from harness.gates.differences import Cause, Kind
from harness.gates.explanation import Explanation
from harness.gates.judgement import Judgement, References
from harness.gates.nights import write_nights
from harness.gates.verdicts import Check, TrialVerdict, Verdict
from harness.report.page import _changes, _counts, render
from harness.report.results import Sweep
from harness.suites.settings import Int16Kind, Int16Policy
from harness.sweeps.judging import as_night
from harness.trials.figures import BrokenOutputs, TrialNode
from harness.trials.trial import Outcome, TrialStore
from tests.browser import needs_browser, opened
from tests.harness import fakes, finished
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
    scatter, heat, table = data["figures"]["scatter"], data["figures"]["heat"], data["table"]
    points = [trace for trace in scatter["data"] if trace["mode"] == "markers"]
    assert [trace["name"] for trace in points] == ["one", "two"]
    assert heat["data"][0]["text"] == [["-5.00", "-2.00"], ["-3.00", ""], ["", "+0.00"]]
    assert text.index('class="verdict ERROR') < text.index("Accuracy against latency")
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
    assert text.index("What would be chosen") < text.index("Effects of settings") < text.index(">Trials</h2>")
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


@pytest.fixture
def whole(sweep: Sweep, tmp_path: Path) -> Path:
    """The page of a sweep that has all that a page can show, under names that would do harm as markup."""
    against = compared(sweep, tmp_path)
    store = TrialStore(tmp_path / "trials")
    picture = io.BytesIO()
    Image.new("RGB", (600, 300), "gray").save(picture, "PNG")
    for result in against.results:
        nodes = [
            TrialNode(
                node=f"<img src=x onerror=alert(1)>{index}",
                on="BPU",
                type="Conv",
                data_type="int8",
                cosine=1 - 0.01 * index,
                time_us=1.0 + index,
                reads=str(index - 1) if index else "",
            )
            for index in range(12)
        ]
        classes = {"by_class": np.array([0.5, 0.75]), "float_by_class": np.array([0.75, 0.75])}
        files = {"worst.png": picture.getvalue()}
        store.put(
            Outcome(result, nodes, {"per_sample": fakes.hits(36), **classes}, files) if result.ok else Outcome(result)
        )
    nights = [as_night(against, None, store).model_copy(update={"sweep": name}) for name in ("before", "last")]
    first = against.results[0].spec.id
    fallen = nights[0].trials[first].model_copy(update={"figures": {"accuracy.quantized": 0.95}})
    nights[0] = nights[0].model_copy(
        update={"trials": {**nights[0].trials, first: fallen}, "started_at": "2026-01-01T02:03:00"}
    )
    folder = tmp_path / "sweeps" / sweep.summary.suite.name
    folder.mkdir(parents=True)
    write_nights(nights, folder)
    page = folder / "report.html"
    page.write_text(render(against, tmp_path))
    return page


OUTSIDE_ITS_CARD = """[...document.querySelectorAll(".card select")].filter(
  each => each.getBoundingClientRect().right > each.closest(".card").getBoundingClientRect().right - 8)"""
OUTSIDE_ITS_BOX = """[...document.querySelectorAll("#graph g.node text")].filter(
  each => each.getBoundingClientRect().right > each.parentNode.querySelector("rect").getBoundingClientRect().right)"""
OVER_ITS_DETAIL = """[...document.querySelectorAll("#graph g.node")].map(
  each => [...each.querySelectorAll("text")]).filter(
  ([kind, detail]) => detail.textContent && kind.getBoundingClientRect().right > detail.getBoundingClientRect().left
).map(([kind]) => kind)"""


@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(1400, False), (390, True)])
def test_the_page_works_in_a_browser(whole: Path, width: int, dark: bool) -> None:
    with opened(whole, width, dark=dark) as browser:
        plots = browser.run("[...document.querySelectorAll('.js-plotly-plot')].map(each => each.id).filter(id => id)")
        assert set(plots) >= {"scatter", "heat", "classes", "depth", "profile"}
        assert browser.run("document.querySelectorAll('#effects .js-plotly-plot').length") == 2
        assert browser.run("document.querySelectorAll('#filters option').length") == 3 * 3
        assert "5 trials, page 1 of 1" in browser.run("document.getElementById('pages').textContent")
        assert browser.run("document.querySelector('#worst + p + details img').naturalWidth") == 600
        assert browser.overflow() == []
        assert browser.run("document.documentElement.scrollWidth") == width
        assert browser.run(f"{OUTSIDE_ITS_CARD}.map(each => each.id)") == []
        assert browser.run(f"{OUTSIDE_ITS_BOX}.map(each => each.textContent)") == []
        assert browser.run(f"{OVER_ITS_DETAIL}.map(each => each.textContent)") == []
        assert browser.run("document.querySelectorAll('main img[src=x]').length") == 0
        assert browser.problems == []


@needs_browser
def test_a_reader_chooses_figures_nights_and_groups(whole: Path) -> None:
    with opened(whole) as browser:
        title = "document.getElementById('scatter').layout.yaxis.title.text"
        before = browser.run(title)
        browser.run("document.getElementById('scatter').previousElementSibling.children[1].click()")
        assert browser.run(title) != before
        assert "0 of 5 trials" in browser.run("document.getElementById('night-says').textContent")
        browser.run("(c => { c.value = 1; c.onchange(); })(document.getElementById('night'))")
        assert "1 of 5 trials" in browser.run("document.getElementById('night-says').textContent")
        assert "▼ −0.05" in browser.run("document.getElementById('night-table').textContent")
        browser.run("(s => { s.value = 'int16'; s.oninput(); })(document.getElementById('filter'))")
        assert "1 trials" in browser.run("document.getElementById('pages').textContent")
        browser.run("document.querySelector('#trials th button').focus()")
        browser.press("Tab")
        browser.press("Enter")
        assert browser.run("document.querySelectorAll('#trials th')[1].getAttribute('aria-sort')") == "ascending"


@needs_browser
def test_the_graph_is_zoomed_moved_and_searched_by_keyboard(whole: Path) -> None:
    with opened(whole) as browser:
        view = "document.querySelector('#graph svg').getAttribute('viewBox').split(' ').map(Number)"
        browser.run("document.querySelector('#graph svg').focus()")
        start = browser.run(view)
        browser.press("ArrowDown")
        moved = browser.run(view)
        assert moved[1] > start[1]
        browser.press("+", "Equal")
        assert browser.run(view)[2] < moved[2]
        browser.press("0", "Digit0")
        assert browser.run(view)[3] >= 12 * 58
        browser.run("(s => { s.value = '>11'; s.oninput(); s.focus(); })(document.querySelector('#graph input'))")
        browser.press("Enter")
        assert "onerror=alert(1)>11: BPU, Conv" in browser.run("document.querySelector('#graph output').textContent")
        assert browser.run("document.querySelectorAll('#graph g.chosen.found').length") == 1


def test_a_sweep_whose_budget_ended_at_once_has_a_page(sweep: Sweep, tmp_path: Path) -> None:
    text = render(judged(Sweep(sweep.summary.model_copy(update={"choices": ()}), ()), References(), tmp_path), tmp_path)
    assert text.count("not computed: the suite&#39;s budget was used up") == len(sweep.summary.trials)


@pytest.mark.parametrize("passes", [True, False])
def test_why_is_folded_where_all_pass(tmp_path: Path, passes: bool) -> None:
    result = fakes.result(fakes.spec("one"))
    cause = Cause(kind=next(iter(Kind)), text="another version")
    made = finished.sweep([result], suite=finished.suite(models="one"), explanation=Explanation(shared=(cause,)))
    verdict = TrialVerdict(result.spec.id, (Check("accuracy", Verdict.PASS if passes else Verdict.REGRESSION, "why"),))
    summary = made.summary.model_copy(update={"judgement": Judgement(verdicts=(verdict,))})
    text = render(Sweep(summary, made.results), tmp_path)
    assert ('<details><summary><h2 class="inline">Why</h2>' in text) is passes
    assert ("<h2>Why</h2>" in text) is not passes
    assert "another version" in text


@needs_browser
def test_on_a_phone_what_does_not_pass_stands_below_each_other_and_lists_have_short_names(
    sweep: Sweep, tmp_path: Path
) -> None:
    policy = Int16Policy(kind=Int16Kind.NODES, names=("/model.22/cv2.0/cv2.0.2/Conv", "/model.22/cv3.0/cv3.0.2/Conv"))
    results = [*sweep.results[:3], fakes.failed(fakes.spec("two", fakes.KL))]
    results.append(fakes.result(fakes.spec("two", fakes.Settings(int16=policy))))
    made = judged(finished.sweep(results, suite=finished.suite(models="*")), References(), tmp_path)
    (tmp_path / "page.html").write_text(render(made, tmp_path))
    with opened(tmp_path / "page.html", 390) as browser:
        right = (
            "Math.max(...[...document.querySelectorAll('.stacked td.wrap')].map(e => e.getBoundingClientRect().right))"
        )
        assert 0 < browser.run(right) <= 390
        ticks = browser.run("[...document.querySelectorAll('#effects .xtick text')].map(each => each.textContent)")
        assert "list 1" in ticks
        assert max(map(len, ticks)) <= 14
        assert "/model.22/cv3.0" in browser.run("document.querySelector('.names').textContent")
        assert browser.overflow() == []


def test_changes_stand_by_their_share_of_the_tolerance(sweep: Sweep, tmp_path: Path) -> None:
    against = compared(sweep, tmp_path)
    (change,) = _changes(against)
    assert (change["figure"], change["before"], change["now"]) == ("latency.ms", 1.005, 1.0)
    assert change["change"] == pytest.approx(-0.005)
    assert _changes(sweep) == []


def test_how_far_conversions_are_known_is_said_where_it_was_kept(sweep: Sweep, tmp_path: Path) -> None:
    assert 'id="known"' not in render(sweep, tmp_path)
    known = Known.of([("<a>", "one <network>")])
    results = tuple(result.model_copy(update={"known": known}) for result in sweep.results if result.ok)
    text = render(judged(Sweep(sweep.summary, results), References(), tmp_path), tmp_path)
    assert text.count('href="#known"') == text.count('id="known"') == 1
    assert "1 by one &lt;network&gt;: &lt;a&gt;." in text
    assert text.count("ptqlab conformance hunt") == 1


def test_verdicts_are_counted_the_worst_first(sweep: Sweep) -> None:
    assert list(_counts(sweep).items()) == [("ERROR", 1), ("NO GATE", 4)]


def test_warnings_have_a_table_of_their_own_where_there_are_any(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 'id="warnings"' not in render(sweep, tmp_path)
    broken = BrokenOutputs(outputs=("y",), text="Output <y> is broken.")
    first = sweep.results[0].model_copy(update={"doubts": ("few",), "broken": broken})
    warned = judged(Sweep(sweep.summary, (first, *sweep.results[1:])), References(), tmp_path)
    text = render(warned, tmp_path)
    assert text.count('href="#warnings"') == text.count('id="warnings"') == 1
    assert "calibration data: few" in text
    assert "Output &lt;y&gt; is broken." in text
    assert "more warnings" not in text
    monkeypatch.setattr("harness.report.page.MOST_NOTES", 1)
    assert "… and 1 more warnings, on the pages of the trials." in render(warned, tmp_path)
