"""How a sweep goes, in lines and on a bar."""

from __future__ import annotations

import io

from rich.console import Console
from rich.progress import Progress, TextColumn

from harness.cli.progress import ProgressBar
from harness.execution.coordinator import AtWork
from harness.suites.settings import Int16Kind, Int16Policy
from harness.trials.tasks import Preparation, Prepared
from tests.harness import fakes


def shown(terminal: bool) -> tuple[ProgressBar, Console, Progress]:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, record=True)
    progress = Progress(TextColumn("{task.description}", markup=False), console=console, disable=not terminal)
    return ProgressBar(progress, console), console, progress


def sweep(bar: ProgressBar) -> None:
    specs = [fakes.spec(), fakes.spec(settings=fakes.KL), fakes.spec(settings=fakes.INT16)]
    bar.planned(specs)
    preparation = Preparation(specs=tuple(specs))
    bar.prepared(preparation, Prepared(statistics="x", seconds={"a": 1.25, "b": 0.5}))
    bar.finished(fakes.result(specs[0], value=0.91234), reused=False)
    bar.finished(fakes.failed(specs[1]), reused=True)


def test_elsewhere_there_is_a_line_per_trial() -> None:
    bar, console, _ = shown(terminal=False)
    sweep(bar)
    assert console.export_text().splitlines() == [
        "[0/3] net on bayes-e: prepared in 1.8 s",
        "[1/3] net/bayes-e/max: top1 0.9123",
        "[2/3] net/bayes-e/kl: failed in stage quantize (reused)",
    ]
    assert bar.kept == 2


def test_on_a_terminal_the_bar_moves_with_every_trial() -> None:
    bar, console, progress = shown(terminal=True)
    sweep(bar)
    (task,) = progress.tasks
    assert (task.completed, task.total) == (2, 3)
    assert task.description == "net/bayes-e/kl: failed in stage quantize (reused)"
    assert "[2/3]" not in console.export_text()


def test_elsewhere_each_stage_behind_the_trials_is_told_once() -> None:
    bar, console, _ = shown(terminal=False)
    for text in ("compiles, 3 s", "compiles, 9 s", "writes", "compiles"):
        bar.tell(text)
    assert console.export_text().splitlines() == ["compiles", "writes", "compiles"]


def test_a_long_name_is_cut_on_the_bar() -> None:
    bar, _, progress = shown(terminal=True)
    bar.planned([])
    bar.finished(fakes.result(fakes.spec("m" * 80)), reused=False)
    assert progress.tasks[0].description == "m" * 60


def test_a_search_for_nodes_is_named_before_and_after() -> None:
    bar, console, _ = shown(terminal=False)
    top_k = fakes.Settings(int16=Int16Policy(kind=Int16Kind.TOP_K, count=2))
    specs = [fakes.spec("unknown", top_k), fakes.spec("unknown")]
    bar.planned(specs)
    bar.prepared(Preparation(specs=tuple(specs)), Prepared(statistics="x", seconds={"float": 4.0}))
    done = fakes.result(specs[0]).model_copy(update={"seconds": {"simulate": 4.0, "sensitivity": 150.0}})
    bar.finished(done, reused=False)
    text = " ".join(console.export_text().split())
    assert "prepared in 4.0 s; 2 trials, about 57 s of work, 40 s of it for top_k" in text
    assert "[1/2] unknown/bayes-e/max-int16.top_2: top1 0.9000, nodes ranked in 2 min" in text


def test_a_running_search_for_nodes_says_how_long_it_takes() -> None:
    top_k = fakes.Settings(int16=Int16Policy(kind=Int16Kind.TOP_K, count=2))
    spec = fakes.spec("unknown", top_k)
    for terminal in (False, True):
        bar, console, progress = shown(terminal)
        bar.planned([spec])
        bar.prepared(Preparation(specs=(spec,)), Prepared(statistics="x", seconds={"float": 4.0}))
        for seconds in (2.0, 10.0, 12.0, 45.0, 80.0):
            bar.at_work([AtWork(spec, "sensitivity", seconds), AtWork(fakes.spec(), "simulate", 100.0)])
            if terminal and seconds == 12.0:
                assert progress.tasks[0].description == "unknown: ranking nodes, 12 s of about 40 s"
        told = [line.partition("] ")[2] for line in console.export_text().splitlines() if "ranking" in line]
        assert terminal or told == [
            "unknown: ranking nodes, 10 s of about 40 s",
            "unknown: ranking nodes, 45 s",
            "unknown: ranking nodes, 80 s",
        ]
