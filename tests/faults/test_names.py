"""Names of strangers on every kind of page, in a browser; in what commands print, and in notes of MLflow.

The campaign of hostile names: ``python -m pytest -m "" tests/faults/test_names.py``. One name holds markup that ends
what it could stand in, scripts, an address that is a script, control characters, one that turns the order of letters
round, and what templates and rich take for their own. All names of a model, a sweep, a night, a trial and of what is
guessed of a network are this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from onnx import helper
from typer.testing import CliRunner

from engine.cli.lab.explain import explained
from engine.cli.lab.explain import page as placement_page
from engine.cli.vendor import hb_model_info, hrt_model_exec
from engine.config import load_config
from engine.conformance.page import page as conformance_page
from engine.convert import ConversionResult, convert
from engine.debug.analysis.accumulation import Curve, Curves
from engine.debug.analysis.distribution import distributions
from engine.debug.analysis.metrics import DistanceMeasure
from engine.debug.analysis.model import DebugModel
from engine.debug.analysis.report import Ranking, Report, owners_of
from engine.debug.analysis.report import write_report as write_accuracy
from engine.errors import PtqlabError
from engine.page_links import PageKind, identity
from engine.perf.report import write_report as write_performance
from engine.simulate.assemble import Interpreted
from engine.visible import in_markdown, visible
from harness.cli.main import app
from harness.cli.output import show_sweep
from harness.execution.coordinator import Plan, serial
from harness.gates.judgement import References
from harness.gates.nights import write_nights
from harness.onboarding.contact_sheet import contact_sheet
from harness.onboarding.proposal import propose
from harness.report.badge import badge_svg
from harness.report.page import render
from harness.report.results import Sweep
from harness.report.trial_page import render_trial
from harness.sweeps.judging import as_night
from harness.sweeps.resuming import Running, begin
from harness.sweeps.sweep import run_suite
from harness.tracking.mlflow_store import connect
from harness.trials.figures import TrialNode
from harness.trials.tasks import Bench
from harness.trials.trial import Failure, Outcome, Symptom, TrialStore, UnmetRequest
from tests.browser import Browser, needs_browser
from tests.configurations import FEATUREMAP
from tests.engine.conformance.test_table import row
from tests.engine.frontend.networks import network
from tests.harness import fakes, finished
from tests.harness.onboarding.networks import colour_classifier, colour_images
from tests.harness.report.judged import judged
from tests.harness.serving.test_application import ask

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
RAN = "strange=1"
NAME = (
    f"</script></textarea></title></td></p><script>{RAN}</script><strange-mark></strange-mark>"
    f'<img src=x onerror="{RAN}"><a href="javascript:{RAN}">a</a>\x1b[2K\x1b]0\x07\u202e{{{{7*7}}}}${{1}}[red][/]\'" '
)
FOLDER = NAME.replace("/", "")
"""As a folder may be called."""


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> ConversionResult:
    folder = tmp_path_factory.mktemp("converted")
    rng = np.random.default_rng(0)
    weights = {f"{NAME}{name}": rng.normal(size=(8, 8, 1, 1)).astype(np.float32) for name in ("w", "v")}
    nodes = [
        helper.make_node("Conv", ["x", f"{NAME}w"], [f"{NAME}h"], f"{NAME}first"),
        helper.make_node("Softmax", [f"{NAME}h"], [f"{NAME}s"], f"{NAME}second", axis=3),
        helper.make_node("Conv", [f"{NAME}s", f"{NAME}v"], [f"{NAME}y"], f"{NAME}third"),
    ]
    onnx.save(network(nodes, {"x": (1, 8, 16, 16)}, [f"{NAME}y"], weights, opset=11, ir_version=7), folder / "m.onnx")
    for index in range(2):
        (folder / "data").mkdir(exist_ok=True)
        rng.normal(size=(8, 16, 16)).astype(np.float32).tofile(folder / "data" / f"{index}.bin")
    content = yaml.safe_dump(FEATUREMAP)
    for name in ("m.onnx", "out", "data"):
        content = content.replace(f": {name}\n", f": {folder / name}\n")
    (folder / "c.yaml").write_text(content)
    return convert(load_config(folder / "c.yaml"))


def written(file: Path, text: str) -> list[Path]:
    file.write_text(text, encoding="utf-8")
    return [file]


def performance(result: ConversionResult, folder: Path) -> list[Path]:
    """``hb_perf``: the page of the model and one per subgraph."""
    schedules = tuple(
        each.model_copy(update={"name": f"{NAME}{index}"}) for index, each in enumerate(result.compiled.schedules)
    )
    return sorted(
        write_performance(replace(result.compiled, name=NAME, schedules=schedules), folder).parent.glob("*.html")
    )


def placement(result: ConversionResult, folder: Path) -> list[Path]:
    """``ptqlab explain --html``."""
    slow = (Interpreted(NAME, NAME, NAME),)
    found = replace(result, name=NAME)
    return written(folder / "placement.html", placement_page(found, explained(found), slow, (NAME,)))


def accuracy(result: ConversionResult, folder: Path) -> list[Path]:
    """``hmct-debugger``."""
    model = DebugModel(result.models["calibrated"])
    data = {"x": np.random.default_rng(0).normal(size=(2, 8, 16, 16)).astype(np.float32)}
    shown = [name for name in model.groups if NAME in name]
    report = Report(
        title=NAME,
        identity=identity(PageKind.ACCURACY, model.model),
        samples=2,
        rankings=(Ranking("node", (DistanceMeasure.COSINE,), {name: {DistanceMeasure.COSINE: 0.5} for name in shown}),),
        curves={"Accumulated error": Curves(tuple(shown), DistanceMeasure.COSINE, (Curve(NAME, (1.0,) * len(shown)),))},
        distributions=tuple(distributions(model, data, shown)),
        channels=(),
        owners=owners_of(model, shown),
    )
    assert shown
    return [write_accuracy(report, folder)]


def conformance(result: ConversionResult, folder: Path) -> list[Path]:
    del result
    rows = [row(NAME, outputs=False, march="bayes", message=NAME), row(f"{NAME}2", outputs=True)]
    return written(folder / "conformance.html", conformance_page(NAME, rows))


def a_sweep(folder: Path) -> Sweep:
    """A sweep with a trial that is worse than its baseline says, and one that failed."""
    specs = [fakes.spec(NAME), fakes.spec(NAME, fakes.KL), fakes.spec(f"{NAME}2")]
    failure = Failure(stage="quantize", symptom=Symptom.REFUSED, message=NAME)
    results = [
        fakes.result(specs[0]).model_copy(update={"unmet": (UnmetRequest(node=NAME, request=NAME, reason=NAME),)}),
        fakes.result(specs[1], value=0.8),
        fakes.failed(specs[2]).model_copy(update={"failure": failure}),
    ]
    store = TrialStore(folder / "trials")
    nodes = [
        TrialNode(node=f"{NAME}{index}", on="CPU", reason=NAME, type=NAME, data_type="int8", cosine=0.9, time_us=1.0)
        for index in range(3)
    ]
    for result in results:
        store.put(Outcome(result, nodes, {"per_sample": fakes.hits(36)}) if result.ok else Outcome(result))
    made = finished.sweep(results, suite=finished.suite(models="*", description=NAME), commit=NAME)
    return judged(made, References(), folder / "trials")


def sweep_page(result: ConversionResult, folder: Path) -> list[Path]:
    """``report.html``, with the nights before."""
    del result
    sweep = a_sweep(folder)
    night = as_night(sweep, None, TrialStore(folder / "trials")).model_copy(update={"engine": NAME})
    place = folder / "sweeps" / sweep.summary.suite.name
    place.mkdir(parents=True)
    write_nights([night.model_copy(update={"sweep": name}) for name in ("before", "last")], place)
    return written(place / "report.html", render(sweep, folder))


def trial_page(result: ConversionResult, folder: Path) -> list[Path]:
    del result
    (first, *_) = a_sweep(folder).results
    nodes = TrialStore(folder / "trials").nodes(first.spec.key)
    page = folder / "trial.html"
    page.write_bytes(render_trial(first, nodes, {"config.yaml": NAME.encode(), NAME: b""}))
    return [page]


def first_page(result: ConversionResult, folder: Path) -> list[Path]:
    """What ``ptqlab serve`` shows first."""
    del result
    begin(Running(suite=FOLDER, asked="mine", started_at="2026-01-03T02:00", trials=(fakes.spec(NAME),)), folder)
    status, headers, text = ask(folder, "/")
    assert status == 200
    assert headers["content-security-policy"] == "frame-ancestors 'none'"
    return written(folder / "first.html", text)


def guesses(result: ConversionResult, folder: Path) -> list[Path]:
    """``ptqlab init``."""
    del result
    found = propose(colour_classifier(folder / "net.onnx"), colour_images(folder / "images"))
    return written(folder / "guesses.html", contact_sheet(replace(found, name=NAME, reason=NAME)))


def badge(result: ConversionResult, folder: Path) -> list[Path]:
    """A picture, which holds the name of the suite alone."""
    del result
    sweep = a_sweep(folder)
    suite = sweep.summary.suite.model_copy(update={"name": NAME})
    return written(
        folder / "badge.svg", badge_svg(Sweep(sweep.summary.model_copy(update={"suite": suite}), sweep.results))
    )


PAGES: Mapping[str, Callable[[ConversionResult, Path], list[Path]]] = {
    "performance": performance,
    "placement": placement,
    "accuracy": accuracy,
    "conformance": conformance,
    "sweep": sweep_page,
    "trial": trial_page,
    "first page of the server": first_page,
    "guesses": guesses,
    "badge": badge,
}
BY_DAY = frozenset({"placement", "sweep", "trial", "badge"})
"""Pages that are looked at by day, one of each way of writing; all are at night."""

CHECK = """(() => {
  const count = selector => document.querySelectorAll(selector).length;
  const script = document.createElementNS("http://www.w3.org/1999/xhtml", "script");
  script.textContent = "added = 1";
  document.documentElement.append(script);
  const shown = (document.body ?? document.documentElement).cloneNode(true);
  shown.querySelectorAll("script, style").forEach(each => each.remove());
  return {
    policy: document.querySelector("meta[http-equiv=Content-Security-Policy]")?.content ?? "",
    ran: [window.strange ?? "", window.added ?? ""].join(""),
    injected: count("strange-mark") + count("img[src=x]") + count("a[href^=javascript]") + count("[onerror]"),
    text: shown.textContent,
  };
})()"""


@needs_browser
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in BY_DAY else [pytest.mark.nightly]) for kind in PAGES]
)
def test_names_are_text_on_every_page(kind: str, converted: ConversionResult, tmp_path: Path) -> None:
    pages = PAGES[kind](converted, tmp_path)
    assert pages
    with Browser() as browser:
        for page in pages:
            browser.open(page.as_uri())
            found = browser.run(CHECK)
            assert found["injected"] == 0
            if page.suffix == ".html":
                assert found["ran"] == ""
                assert "default-src 'none'; script-src 'nonce-" in found["policy"]
                assert len([each for each in browser.problems if "Content Security Policy" in each]) == 1, "the check's"
            assert visible(FOLDER if kind == "first page of the server" else NAME).strip() in found["text"]
            assert not OBEYED.search(found["text"])
            browser.problems.clear()


@pytest.mark.parametrize(
    "words",
    [
        ("check", "m.onnx"),
        ("explain", "m.onnx"),
        ("predict", "out/m_quantized_model.onnx"),
        ("diff", "out/m_quantized_model.onnx", "other.onnx"),
        ("check", "broken.onnx"),
    ],
    ids=" ".join,
)
def test_names_are_text_on_a_terminal(
    words: tuple[str, ...], converted: ConversionResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # at 80 columns an escape may be in two lines
    folder = converted.files["bin"].parent.parent
    monkeypatch.chdir(folder)
    model = onnx.load(converted.files["quantized"])
    model.graph.node[-1].name = f"{NAME}other"
    onnx.save(model, folder / "other.onnx")
    (folder / "broken.onnx").write_bytes(onnx.load("m.onnx").SerializeToString().replace(b"Softmax", b"Soft\x1b\x07ax"))
    found = CliRunner().invoke(app, list(words))
    assert isinstance(found.exception, PtqlabError | SystemExit | None), found.exception
    if not isinstance(found.exception, PtqlabError):  # else the entry point prints it
        assert "\\x1b" in found.output
    assert not OBEYED.search(found.output)


def test_what_the_runtime_s_commands_print(converted: ConversionResult, tmp_path: Path) -> None:
    path = replace(converted.compiled, name=NAME).save(tmp_path / "m.bin")
    for command, words in (
        (hrt_model_exec.app, ["model_info", "--model_file", str(path)]),
        (hb_model_info.app, [str(path)]),
    ):
        found = CliRunner().invoke(command, words)
        assert found.exit_code == 0, found.output
        assert visible(NAME) in found.output
        assert not OBEYED.search(found.output)


def test_tables_and_lines_of_a_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_sweep(a_sweep(tmp_path), tmp_path)
    printed = capsys.readouterr().out
    assert "[red][/]" in printed
    assert not OBEYED.search(printed)


@pytest.mark.nightly
def test_notes_of_mlflow_are_text(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    spec = fakes.spec(NAME)
    suite = finished.suite(description=NAME)
    plan = Plan(Bench(tmp_path / "work"), executor=serial, stages="tests.harness.fakes")
    made = run_suite(suite, plan, specs=[spec], tracking_uri=uri)
    assert made.record_problem is None
    client = connect(uri)
    found = client.search_runs([client.get_experiment_by_name(suite.name).experiment_id])
    notes = [run.data.tags["mlflow.note.content"] for run in found if "mlflow.note.content" in run.data.tags]
    assert notes == [in_markdown(NAME)]
    assert not re.search(r"(?<!\\)[<>\[\]]", notes[0])
