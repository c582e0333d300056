"""The gate as pytest users meet it: a suite, a baseline, verdicts per trial. Stages are fakes; the rest is real.

A pytest of its own takes seconds to start: most tests run one within this process.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from typer.testing import CliRunner

from harness.cli.main import app
from harness.files.strict_yaml import parse
from harness.gates.baseline import save_baseline, updated_baseline
from harness.gates.verdicts import Check, TrialVerdict, Verdict
from harness.pytest_plugin import GATE, REPORT, TrialItem, VerdictNotPassError, pytest_runtestloop
from harness.suites.suite import Suite
from harness.sweeps import gating
from harness.sweeps.written import load_sweep
from harness.trials.tasks import Bench
from harness.trials.trial import Outcome, TrialSpec
from tests.harness import fakes

pytest_plugins = ["pytester"]

FAKES = """
import pytest
from tests.harness.test_pytest_plugin import fake_stages

fake_stages(pytest.MonkeyPatch())
"""
SUITE = "{name: mine, version: 1, models: net, sweep: {calibration_type: [max, kl]}}"


Gate = Callable[..., pytest.RunResult]
"""Runs pytest on suite ``mine``, or with ``suite=False`` on what the arguments say."""


def fake_stages(patch: pytest.MonkeyPatch) -> None:
    """Trials of model ``net`` that compute nothing."""

    def plan_trials(suite: Suite) -> list[TrialSpec]:
        specs = [fakes.spec("net", settings) for settings in suite.sweep.settings()]
        return specs + [fakes.spec(str(trial.models[0])) for trial in suite.trials]

    patch.setattr(gating, "plan_trials", plan_trials)
    patch.setattr(gating, "Plan", partial(gating.Plan, stages="tests.harness.fakes"))


def options(arguments: tuple[str, ...], suite: bool) -> list[str]:
    """The command line."""
    given = ["--ptqlab-suite", "mine.yaml", "--ptqlab-baseline", "base.json", "--ptqlab-workdir", "work"]
    return ["-p", "no:cacheprovider", *([*given, "--ptqlab-executor", "serial"] if suite else []), *arguments]


@pytest.fixture
def gate(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """In this process, without the timeouts, coverage and tracebacks that belong to the pytest around it."""
    pytester.makefile(".yaml", mine=SUITE)
    fake_stages(monkeypatch)
    outside = [word for name in ("timeout", "slipcover", "faulthandler") for word in ("-p", f"no:{name}")]

    def run(*arguments: str, suite: bool = True) -> pytest.RunResult:
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            code = pytest.main([*outside, *options(arguments, suite)])
        return pytest.RunResult(code, out.getvalue().splitlines(), err.getvalue().splitlines(), 0.0)

    return run


@pytest.fixture
def command(pytester: pytest.Pytester) -> Gate:
    """In a process of its own."""
    pytester.makefile(".yaml", mine=SUITE)
    (pytester.path / "with_fakes.py").write_text(FAKES)
    root = Path(gating.__file__).parents[1]
    start = f"import sys; sys.path[:0] = [{str(root)!r}]; import pytest; sys.exit(pytest.main())"

    def run(*arguments: str, suite: bool = True) -> pytest.RunResult:
        return pytester.run(sys.executable, "-c", start, "-p", "with_fakes", *options(arguments, suite))

    return run


@pytest.fixture
def accepted(pytester: pytest.Pytester) -> dict[str, Any]:
    """The baseline of suite ``mine`` as JSON, written to ``base.json``."""
    specs = [fakes.spec("net", settings) for settings in (fakes.Settings(), fakes.KL)]
    store = Bench(pytester.path / "results").store
    for spec in specs:
        store.put(Outcome(fakes.result(spec), (), {"per_sample": fakes.hits(36)}))
    suite = parse(yaml.safe_load(SUITE), Suite, "mine.yaml")
    baseline = updated_baseline(None, suite, [fakes.result(spec) for spec in specs], store)
    save_baseline(baseline, pytester.path / "base.json")
    content: dict[str, Any] = json.loads((pytester.path / "base.json").read_text())
    return content


@pytest.mark.nightly
def test_a_baseline_is_made_then_kept(gate: Gate, command: Gate) -> None:
    missing = gate()
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    missing.stderr.fnmatch_lines(["ERROR: base.json: no baseline*make one with --ptqlab-update-baseline"])
    command("--ptqlab-update-baseline").assert_outcomes(passed=2)
    again = gate("-v")
    again.assert_outcomes(passed=2)
    again.stdout.fnmatch_lines(["*mine.yaml::net/bayes-e/max PASSED*", "*mine.yaml::net/bayes-e/kl PASSED*"])
    again.stdout.fnmatch_lines(["suite mine: PASS, 2 trials, 0 failed, 2 reused*", "report file:*report.html"])


def test_a_planted_loss_is_a_regression_in_words(gate: Gate, pytester: pytest.Pytester, accepted: Any) -> None:
    trial = accepted["trials"]["net/bayes-e/kl"]
    trial["figures"]["cosine.output"]["value"] = 0.995
    (pytester.path / "base.json").write_text(json.dumps(accepted))
    result = gate("--junitxml", "junit.xml")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["REGRESSION: net/bayes-e/kl", "cosine.output: REGRESSION: 0.99, baseline 0.995 *"])
    result.stdout.fnmatch_lines(["why: nothing recorded has changed; the float model's score is the same"])
    result.stdout.no_fnmatch_line("*Traceback*")
    junit = (pytester.path / "junit.xml").read_text()
    assert '<property name="verdict" value="REGRESSION"' in junit
    assert '<property name="cosine.output" value="0.99"' in junit


@pytest.mark.parametrize(
    "distribution", [(), pytest.param(("-n", "1"), marks=pytest.mark.nightly)], ids=["one process", "xdist"]
)
def test_one_judgement_is_what_everything_says(
    gate: Gate, command: Gate, pytester: pytest.Pytester, accepted: Any, distribution: tuple[str, ...]
) -> None:
    """Pytest, its JUnit file, the page, the tables, ``ptqlab show`` and what is kept agree on a planted regression."""
    accepted["trials"]["net/bayes-e/kl"]["figures"]["cosine.output"]["value"] = 0.995
    (pytester.path / "base.json").write_text(json.dumps(accepted))
    result = (command if distribution else gate)("--junitxml", "junit.xml", *distribution)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["suite mine: REGRESSION, 2 trials*"])
    folder = pytester.path / "work" / "sweeps" / "mine"
    assert '<div class="verdict REGRESSION">REGRESSION</div>' in (folder / "report.html").read_text()
    kept = load_sweep(pytester.path / "work", "mine")
    assert {verdict.trial: verdict.verdict.value for verdict in kept.verdicts} == {
        "net/bayes-e/max": "PASS",
        "net/bayes-e/kl": "REGRESSION",
    }
    shown = CliRunner().invoke(app, ["show", "mine", "--workdir", str(pytester.path / "work")])
    assert "REGRESSION: 2 trials" in shown.stdout
    rows = list(csv.DictReader((folder / "trials.csv").open()))
    properties = ElementTree.parse(pytester.path / "junit.xml").iter("property")
    junit = sorted(str(item.get("value")) for item in properties if item.get("name") == "verdict")
    assert sorted(row["verdict"] for row in rows) == junit == ["PASS", "REGRESSION"]


@pytest.mark.nightly
def test_entries_without_trial_and_trials_without_entry_are_missing(
    gate: Gate, pytester: pytest.Pytester, accepted: Any
) -> None:
    accepted["trials"]["net/bayes-e/mix"] = accepted["trials"].pop("net/bayes-e/kl")
    (pytester.path / "base.json").write_text(json.dumps(accepted))
    result = gate()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["MISSING: net/bayes-e/kl", "MISSING: net/bayes-e/mix"])


@pytest.mark.nightly
def test_a_failed_trial_is_an_error_and_no_baseline(gate: Gate, pytester: pytest.Pytester, accepted: Any) -> None:
    pytester.makefile(".yaml", mine=SUITE.replace("}}", "}, trials: [{models: refused}]}"))
    result = gate()
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["ERROR: refused/bayes-e/max", "trial: ERROR: stage quantize: refused: *"])
    update = gate("--ptqlab-update-baseline")
    assert update.ret == pytest.ExitCode.USAGE_ERROR
    update.stderr.fnmatch_lines(["ERROR: trial refused/bayes-e/max failed in stage quantize*"])


@pytest.mark.nightly
def test_selected_trials_only_are_run(gate: Gate, pytester: pytest.Pytester, accepted: Any) -> None:
    gate("-k", "kl").assert_outcomes(passed=1, deselected=1)
    assert fakes.notes(pytester.path / "work") == ["prepare net", "run net/bayes-e/kl"]
    assert gate("-k", "kl", "--ptqlab-update-baseline").ret == pytest.ExitCode.USAGE_ERROR
    assert gate("-k", "nothing_of_the_kind").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_id_of_a_trial_runs_that_trial_alone(gate: Gate, pytester: pytest.Pytester, accepted: Any) -> None:
    result = gate("mine.yaml::net/bayes-e/kl")
    result.assert_outcomes(passed=1)
    assert fakes.notes(pytester.path / "work") == ["prepare net", "run net/bayes-e/kl"]
    result.stdout.fnmatch_lines(["ptqlab: 1 trials", "ptqlab: *1/1* net/bayes-e/kl: top1 0.9000", "*file:///*"])


@pytest.mark.nightly
def test_the_suite_alone_is_collected_unless_arguments_ask_for_more(
    gate: Gate, pytester: pytest.Pytester, accepted: Any
) -> None:
    pytester.makepyfile(test_more="def test_more(): pass")
    more = ("--import-mode=importlib", "test_more.py")
    gate(*more).assert_outcomes(passed=3)
    gate(*more, suite=False).assert_outcomes(passed=1)
    ungated = gate(*more, "-k", "test_more")
    assert ungated.ret == pytest.ExitCode.USAGE_ERROR
    ungated.stderr.fnmatch_lines(["ERROR: --ptqlab-suite mine: none of its trials is selected"])


def test_collecting_runs_nothing(gate: Gate, pytester: pytest.Pytester, accepted: Any) -> None:
    gate("--collect-only", "-q").stdout.fnmatch_lines(["*net/bayes-e/max", "*net/bayes-e/kl"])
    assert fakes.notes(pytester.path / "work") == []


@pytest.mark.nightly
def test_xdist_workers_use_the_results_of_their_controller(
    command: Gate, pytester: pytest.Pytester, accepted: Any
) -> None:
    command("-n", "2", "--junitxml=junit.xml").assert_outcomes(passed=2)
    cases = ElementTree.parse(pytester.path / "junit.xml").findall(".//testcase")
    properties = [{p.get("name"): p.get("value") for p in case.iter("property")} for case in cases]
    assert [found["verdict"] for found in properties] == ["PASS", "PASS"]
    assert [float(str(found["accuracy.quantized"])) for found in properties] == [0.9, 0.9]
    assert sorted(fakes.notes(pytester.path / "work")) == ["prepare net", "run net/bayes-e/kl", "run net/bayes-e/max"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ptqlab-suite", "smok"], "unknown suite 'smok'; did you mean 'smoke'?"),
        (["--ptqlab-update-baseline"], "--ptqlab-update-baseline needs --ptqlab-suite"),
        (["--ptqlab-accept-loss"], "--ptqlab-accept-loss needs --ptqlab-suite"),
        (["--ptqlab-suite", "smoke", "--ptqlab-accept-loss"], "--ptqlab-accept-loss needs --ptqlab-update-baseline"),
    ],
)
def test_wrong_options_are_usage_errors(gate: Gate, arguments: list[str], message: str) -> None:
    result = gate(*arguments, suite=False)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message.replace('?', '[?]')}*"])


def test_ordinary_runs_import_nothing_of_the_harness() -> None:
    code = (
        "import sys, harness.pytest_plugin;"
        "print([m for m in sys.modules if m.startswith(('harness.', 'engine.'))], 'numpy' in sys.modules)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    light = ["engine.errors", "engine.deferral", "engine.exports", "harness.pytest_plugin"]
    assert finished.stdout.strip() == f"{light} False"


@pytest.mark.parametrize(
    ("verdict", "fails"),
    [(Verdict.PASS, False), (Verdict.NO_GATE, False), (Verdict.IMPROVEMENT, True), (Verdict.ERROR, True)],
)
def test_an_item_fails_unless_nothing_speaks_against_its_trial(verdict: Verdict, fails: bool) -> None:
    found = TrialVerdict("net/max", (Check("accuracy", verdict, "words"),))
    item: Any = SimpleNamespace(verdict=lambda: found, cause=lambda: "the data", user_properties=[])
    if fails:
        with pytest.raises(VerdictNotPassError) as raised:
            TrialItem.runtest(item)
        assert str(raised.value) == f"{verdict.value}: net/max\naccuracy: {verdict.value}: words\nwhy: the data"
    else:
        TrialItem.runtest(item)
    assert item.user_properties == [("verdict", verdict.value)]


@pytest.mark.parametrize(
    ("options", "worker", "items", "ran"),
    [
        ({"collectonly": False}, False, ["a"], {"a"}),
        ({"collectonly": True}, False, ["a"], None),
        ({"collectonly": False}, True, ["a"], None),
        ({"collectonly": False, "dist": "load"}, False, [], {"a", "b"}),
        ({"collectonly": False, "dist": "no"}, False, [], None),
    ],
)
def test_the_sweep_runs_where_the_items_are_dealt_out(
    options: dict[str, Any], worker: bool, items: list[str], ran: set[str] | None
) -> None:
    class Config(SimpleNamespace):
        pass

    asked: list[set[str]] = []
    specs = [SimpleNamespace(key=key) for key in ("a", "b")]
    gate: Gate = SimpleNamespace(specs=specs, run=lambda keys, observers: asked.append(keys) or "report")
    plugins = SimpleNamespace(get_plugin=lambda name: None)
    given: dict[str, Any] = {"workerinput": {}} if worker else {}
    config = Config(stash=pytest.Stash(), option=SimpleNamespace(**options), pluginmanager=plugins, **given)
    config.stash[GATE] = gate
    chosen = [TrialItem.__new__(TrialItem) for _ in items]
    for item, key in zip(chosen, items, strict=True):
        item.spec = SimpleNamespace(key=key)  # type: ignore[assignment]
    session: Any = SimpleNamespace(config=config, items=chosen)
    pytest_runtestloop(session)
    assert asked == ([] if ran is None else [ran])
    assert config.stash.get(REPORT, None) == (None if ran is None else "report")
