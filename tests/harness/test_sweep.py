"""Pareto points, tables and the page of a sweep."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from pyarrow import parquet
from rich.console import Console

from engine.config import CalibrationParameters, InputParameters, ModelParameters
from harness.execution.coordinator import DEFAULT_TIME_LIMIT, Plan
from harness.gates.baseline import save_baseline, updated_baseline
from harness.gates.judgement import Judgement, References
from harness.report.page import render
from harness.report.results import Sweep, SweepSummary, pareto, pareto_yaml, trials_csv, trials_parquet
from harness.report.tables import comparison_table, node_table, sweep_tables, trial_table
from harness.strict_yaml import parse
from harness.suites.suite import Budget, Suite
from harness.sweep import within
from harness.tracking.sync import SharedSeconds
from harness.trials.fragments import fragment
from harness.trials.tasks import Bench
from harness.trials.trial import Outcome, TrialStore, UnmetRequest
from tests.harness import fakes


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    suite = parse({"name": "mine", "version": 1, "models": "*", "sweep": {}}, Suite, "mine.yaml")
    specs = [fakes.spec(model, setting) for model in ("one", "two") for setting in (fakes.Settings(), fakes.KL)]
    specs.append(fakes.spec("two", fakes.INT16))
    results = [
        fakes.result(specs[0], value=0.90, latency=1.0),
        fakes.result(specs[1], value=0.92, latency=1.0),
        fakes.result(specs[2], value=0.93, latency=3.0).model_copy(
            update={"unmet": (UnmetRequest(node="n", request="int16", reason="<no>"),)}
        ),
        fakes.failed(specs[3]),
        fakes.result(specs[4], value=0.95, latency=4.0),
    ]
    summary = SweepSummary(
        suite=suite,
        trials=tuple(specs),
        started_at="2026-01-02T03:04:05+00:00",
        seconds=12.0,
        reused=1,
        shared=(SharedSeconds(model="one", march="bayes-e", seconds={"statistics": 1.5}),),
        engine="0.1.0+abc",
        judgement=Judgement(),
    )
    return judged(Sweep(summary, tuple(results)), References(), tmp_path)


def judged(sweep: Sweep, references: References, folder: Path) -> Sweep:
    """``sweep`` with the judgement of its results."""
    summary = sweep.summary
    judgement = references.judge(summary.suite, sweep.results, TrialStore(folder), summary.trials)
    return Sweep(summary.model_copy(update={"judgement": judgement}), sweep.results)


def test_pareto_points_are_those_that_nothing_beats(sweep: Sweep) -> None:
    best = {result.spec.id for result in sweep.results if result.spec.key in pareto(sweep.results)}
    assert best == {"one/bayes-e/kl", "two/bayes-e/max", "two/bayes-e/max-int16.all"}


def test_of_equal_trials_the_first_is_the_pareto_point() -> None:
    equal = [fakes.result(fakes.spec(settings=settings)) for settings in (fakes.Settings(), fakes.KL)]
    assert pareto(equal) == {equal[0].spec.key}


def test_the_table_has_a_line_per_trial_and_fits_100_columns(sweep: Sweep) -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    for table in sweep_tables(sweep):
        console.print(table)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text
    assert text.count("NO GATE") == 4
    assert text.count("ERROR") == 1
    assert "one on bayes-e: float top1 0.9500 on 40 samples" in text
    assert re.search(r"★ kl +0\.9200 +-3\.00 +0\.9700 +0\.99000 +20\.0 +1\.000 +1 +NO GATE", text)


def test_the_csv_holds_every_figure_and_failure(sweep: Sweep) -> None:
    rows = list(csv.DictReader(io.StringIO(trials_csv(sweep))))
    assert [row["verdict"] for row in rows] == ["NO GATE", "NO GATE", "NO GATE", "ERROR", "NO GATE"]
    assert float(rows[0]["accuracy.quantized"]) == 0.9
    assert rows[3]["failed_stage"] == "quantize"
    assert rows[3]["message"] == "no <b>rule</b> for Foo"


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
    scatter, heat = (json.loads(page.data[name]) for name in ("scatter-data", "heat-data"))
    points = [trace for trace in scatter["data"] if trace["mode"] == "markers"]
    assert [trace["name"] for trace in points] == ["one", "two"]
    assert heat["data"][0]["text"] == [["-5.00", "-2.00"], ["-3.00", ""], ["", "+0.00"]]
    assert text.index("ERROR") < text.index("Accuracy against latency")
    assert "no &lt;b&gt;rule&lt;/b&gt; for Foo" in text
    assert "<b>rule" not in text
    assert page.rows == 2 + 6 + 2  # what does not pass, trials, shared stages; each with its heading


def test_a_trial_shows_its_figures_failure_and_unmet_requests(sweep: Sweep) -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    for result in sweep.results:
        console.print(trial_table(result))
    console.print(node_table(fakes.NODES))
    text = console.export_text()
    assert "failed in quantize" in text
    assert "unmet: n" in text
    assert "HzSQuantizedConv" in text


def test_two_trials_are_compared_sample_by_sample(tmp_path: Path) -> None:
    store = TrialStore(tmp_path)
    first, second = (fakes.result(fakes.spec(settings=s)) for s in (fakes.Settings(), fakes.KL))
    store.put(Outcome(first, (), {"per_sample": fakes.hits(36)}))
    store.put(Outcome(second, (), {"per_sample": fakes.hits(30)}))
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(comparison_table(first, second, store))
    text = console.export_text()
    assert "0 / 6" in text
    assert "p = 0.0156" in text


def test_parquet_and_csv_hold_the_same(sweep: Sweep) -> None:
    rows = parquet.read_table(io.BytesIO(trials_parquet(sweep))).to_pylist()
    lines = list(csv.DictReader(io.StringIO(trials_csv(sweep))))
    assert [{key: "" if value is None else str(value) for key, value in row.items()} for row in rows] == lines
    assert rows[4]["int16"] == "all"
    assert rows[1]["calibration_type"] == "kl"


def test_every_pareto_point_has_a_fragment_that_the_converter_takes(sweep: Sweep) -> None:
    fragments = list(yaml.safe_load_all(pareto_yaml(sweep.results)))
    assert len(fragments) == len(pareto(sweep.results))
    settings = fakes.Settings(
        max_percentile=0.999, per_channel=True, asymmetric=True, mean_bias_correction=True, input_type_rt="nv12"
    )
    asked = fragment(fakes.spec(settings=settings), ["conv"])
    ModelParameters.model_validate({**asked["model_parameters"], "output_model_file_prefix": "x", "onnx_model": None})
    InputParameters.model_validate(
        {**asked["input_parameters"], "input_type_train": "rgb", "input_layout_train": "NCHW"}
    )
    CalibrationParameters.model_validate(asked["calibration_parameters"])
    assert asked["calibration_parameters"] == {
        "calibration_type": "max",
        "max_percentile": 0.999,
        "per_channel": True,
        "optimization": "asymmetric;mean_bias_correction",
    }
    assert asked["model_parameters"]["node_info"] == {"conv": {"InputType": "int16", "OutputType": "int16"}}


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
    for plot in ("scatter", "heat", "profile"):
        assert re.search(rf'id="{plot}" class="[^"]*js-plotly-plot', drawn), f"{plot} was not drawn"
    assert drawn.count("<option") == 2 * 4


def test_a_sweep_whose_budget_ended_at_once_has_a_page(sweep: Sweep, tmp_path: Path) -> None:
    text = render(judged(Sweep(sweep.summary, ()), References(), tmp_path), tmp_path)
    assert text.count("not computed: the suite&#39;s budget was used up") == len(sweep.summary.trials)


def test_the_command_s_time_limit_counts_more_than_the_suite_s(tmp_path: Path) -> None:
    plan, budget = Plan(bench=Bench(tmp_path)), Budget(trials=2, minutes=3, minutes_per_trial=20)
    assert (within(budget, plan).time_limit, within(budget, plan).seconds) == (1200, 180)
    assert within(budget, replace(plan, time_limit=5.0)).time_limit == 5
    assert within(Budget(), plan).task("key").time_limit == DEFAULT_TIME_LIMIT
