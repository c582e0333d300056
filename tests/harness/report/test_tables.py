"""Tables for the terminal."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from engine.rulebook.known import Known
from harness.gates.choice import Choice, CrossFit, Resolution
from harness.gates.nights import Night
from harness.report.results import Sweep
from harness.report.tables import (
    choice_text,
    comparison_table,
    drift_table,
    has_doubts,
    known_conversions,
    known_in_short,
    node_table,
    sweep_tables,
    trial_table,
    warnings_of,
)
from harness.suites.settings import Int16Kind, Int16Policy, Settings
from harness.trials.figures import BrokenOutputs, TrialNode
from harness.trials.trial import Outcome, TrialStore
from tests.harness import fakes, finished


def test_the_table_has_a_line_per_trial_and_fits_80_columns(sweep: Sweep) -> None:
    console = Console(width=80, file=io.StringIO(), record=True)
    for table in sweep_tables(sweep):
        console.print(table)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert text.count("NO GATE") == 4
    assert text.count("ERROR") == 1
    assert "one on bayes-e: float top1 0.9500 on 40 samples" in text
    assert re.search(r"★ +kl +0\.9200 +-3\.00 +0\.98 +0\.9700 +0\.99000 +1\.000 +0\.000 +NO GATE", text)


def test_a_trial_shows_its_figures_failure_and_unmet_requests(sweep: Sweep) -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    for result in sweep.results:
        console.print(trial_table(result))
    console.print(node_table(fakes.NODES))
    text = console.export_text()
    assert "failed in quantize" in text
    assert "unmet: n" in text
    assert "HzSQuantizedConv" in text


def test_what_is_known_of_conversions_is_said_once_for_trials_that_share_it() -> None:
    sure, doubtful, other = Known.of([("a", "")]), Known.of([("a", "x")]), Known.of([("a", "y")])
    specs = [
        ("one", fakes.Settings(), sure),
        ("one", fakes.KL, sure),
        ("two", fakes.Settings(), doubtful),
        ("two", fakes.KL, other),
    ]
    results = [
        fakes.result(fakes.spec(model, settings)).model_copy(update={"known": known})
        for model, settings, known in specs
    ]
    texts = [("one", str(sure)), ("two/bayes-e/max", str(doubtful)), ("two/bayes-e/kl", str(other))]
    assert known_conversions(finished.sweep(results)) == texts
    assert known_conversions(finished.sweep(results[:2])) == texts[:1]
    short = [("one", "all nodes by rules that recorded conversions show")]
    assert known_in_short(finished.sweep(results[:2])) == short
    doubts = "0 of 1 nodes by rules that recorded conversions show; 2 reasons to doubt the others"
    assert known_in_short(finished.sweep(results)) == [*short, ("two", doubts)]
    assert has_doubts(finished.sweep(results))
    assert not has_doubts(finished.sweep(results[:2]))


def test_warnings_name_trials_that_share_them_once() -> None:
    assert warnings_of(finished.sweep([fakes.result(fakes.spec())])) == []
    few, dark = "4 samples are few", "samples are dark"
    results = []
    for model, settings, cosine, outputs in (
        ("one", fakes.Settings(), 0.9, ()),
        ("one", fakes.KL, 0.4, ("y",)),
        ("one", fakes.INT16, 0.3, ("y",)),
        ("two", fakes.Settings(), 0.2, ("y",)),
    ):
        result = fakes.result(fakes.spec(model, settings), cosine=cosine)
        broken = BrokenOutputs(outputs=outputs, text=f"Output y: {cosine}." if outputs else "")
        results.append(
            result.model_copy(update={"doubts": (few, dark) if model == "one" else (few,), "broken": broken})
        )
    assert warnings_of(finished.sweep([*results, fakes.failed(fakes.spec("two", fakes.KL))])) == [
        ("one, two", f"calibration data: {few}"),
        ("one", f"calibration data: {dark}"),
        ("one/bayes-e/kl, one/bayes-e/max-int16.all", "Output y: 0.3. (Of 2 trials this is the worst: max-int16.all.)"),
        ("two", "Output y: 0.2."),
    ]
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(trial_table(results[1]))
    text = console.export_text()
    assert "calibration data: 4 samples are few" in text
    assert "Output y: 0.4." in text


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


HOSTILE = Settings(int16=Int16Policy(kind=Int16Kind.NODES, names=("[/bold]", "[red]x")))
"""Names of nodes that are markup of the terminal."""


def text_of(table: Table, width: int = 200) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(table)
    return console.export_text()


def test_names_are_text_and_no_markup(sweep: Sweep, tmp_path: Path) -> None:
    result = fakes.result(fakes.spec("[/x]model", HOSTILE))
    shown = Sweep(sweep.summary, (result,))
    row = TrialNode(node="[/a]", on="CPU", type="[/b]", data_type="int8")
    tables = [
        *sweep_tables(shown),
        trial_table(result),
        node_table([row]),
        comparison_table(result, result, TrialStore(tmp_path)),
    ]
    found = "".join(text_of(table) for table in tables).replace("\n", "")
    for name in ("[/bold]", "[red]x", "[/x]model", "[/a]", "[/b]"):
        assert name in found


def test_chance_is_told_for_the_better_model(tmp_path: Path) -> None:
    store = TrialStore(tmp_path)
    first, second = (fakes.result(fakes.spec(settings=s)) for s in (fakes.Settings(), fakes.KL))
    store.put(Outcome(first, (), {"per_sample": fakes.hits(30)}))
    store.put(Outcome(second, (), {"per_sample": fakes.hits(36)}))
    text = text_of(comparison_table(first, second, store, ("this", "that")))
    assert re.search(r"samples better / worse .* 6 / 0 .*p = 0\.0156", text)
    assert re.search(r"engine .* this .* that", text)


@pytest.mark.parametrize("changes", [{"data": "other"}, {"evaluation_samples": 39}])
def test_other_samples_are_not_paired(changes: dict[str, Any], tmp_path: Path) -> None:
    store = TrialStore(tmp_path)
    first, second = fakes.result(fakes.spec()), fakes.result(fakes.spec(**changes))
    for result in (first, second):
        store.put(Outcome(result, (), {"per_sample": fakes.hits(36)}))
    assert "samples better" not in text_of(comparison_table(first, second, store))


def test_a_figure_that_one_lacks_has_no_difference(tmp_path: Path) -> None:
    first = fakes.result(fakes.spec())
    second = first.model_copy(update={"footprint": None, "spec": fakes.spec(settings=fakes.KL)})
    cells = {}
    for line in text_of(comparison_table(first, second, TrialStore(tmp_path))).splitlines():
        name, *rest = [cell.strip() for cell in re.split("[│┃]", line)][1:-1] or [""]
        cells[name] = rest
    assert cells["latency.ms"] == ["1", "", ""]
    assert cells["cosine.output"] == ["0.99", "0.99", "+0"]


def test_what_is_recommended_and_what_it_is_worth_elsewhere() -> None:
    result = fakes.result(fakes.spec())
    assert result.accuracy is not None
    objects = {"informative": 19, "sought": "objects", "by_float": True}
    found = result.model_copy(update={"accuracy": result.accuracy.model_copy(update=objects)})
    choice = Choice(
        model="net",
        march=result.spec.march,
        best=result.spec.key,
        alike=("a", "b", "c"),
        compared=7,
        failing=2,
        cross_fit=CrossFit(chosen=-0.01, reported=-0.025, share=0.76, sides=50),
        resolution=Resolution(difference=0.05, images=150),
        samples=50,
        significance=0.05,
    )
    assert choice_text(choice, [found]) == (
        "The float model finds objects in 19 of 50 images. Best: max, chosen by 76 % of random halves; what they "
        "choose has Δ -1.00 pt on their own images and -2.50 pt on the others. These 3 of 7 settings cannot be told "
        "apart (≈): about 150 images with objects tell 5 points apart. Not considered: 2 that fail a gate."
    )
    fine = choice.model_copy(update={"resolution": Resolution(difference=0.001, images=1)})
    assert "cannot be told apart (≈): a difference of 0.1 points would show on these images." in choice_text(
        fine, [found]
    )
    alone = choice.model_copy(update={"alike": ("a",), "cross_fit": None, "failing": 0})
    assert choice_text(alone, [result]) == "Best: max."
    none = alone.model_copy(update={"best": None, "nearest": result.spec.key, "lacks": "agreement 0.8769, the floor"})
    assert choice_text(none, [result]) == "No setting passes the gates. Nearest: max (agreement 0.8769, the floor)."


def test_drift_tells_since_when() -> None:
    nights = [
        Night.model_construct(version=version, started_at=f"2026-01-0{day}T03:04:05+00:00")
        for day, version in ((1, 1), (2, 2), (3, 2))
    ]
    drift: Any = SimpleNamespace(
        trial="net/[/x]", figure="accuracy", anchor=0.9, values=[0.9, 0.85], p=0.00123, began=1
    )
    text = text_of(drift_table([drift], nights))
    assert re.search(r"net/\[/x\] +accuracy +0\.9 +0\.85 +0\.0012 +2026-01-03 03:04", text)


def test_hopeless_settings_are_named_with_their_cause_where_the_sweep_tells_it() -> None:
    kl_wide = Settings(calibration_type="kl", int16=Int16Policy(kind=Int16Kind.ALL))
    every = (Settings(), fakes.INT16, fakes.KL, kl_wide)
    values = (0.95, 0.96, 0.41, 0.41)
    results = [fakes.result(fakes.spec(settings=each), value=value) for each, value in zip(every, values, strict=True)]
    accuracy = results[0].accuracy
    assert accuracy is not None

    def text(hopeless: tuple[int, ...], metric: str = "top1") -> str:
        named = [
            each.model_copy(update={"accuracy": each.accuracy and each.accuracy.model_copy(update={"metric": metric})})
            for each in results
        ]
        keys = [result.spec.key for result in named]
        choice = Choice(
            model="one",
            march=named[0].spec.march,
            best=keys[1],
            hopeless=tuple(keys[index] for index in hopeless),
            compared=4,
            samples=40,
            significance=0.05,
        )
        return choice_text(choice, named)

    assert "Hopeless" not in text(())
    assert text((2, 3), "map50").endswith(
        "Hopeless: kl, kl-int16.all, 55 points worse. Thresholds of kl cut off rare large values; in a detector these "
        "place the boxes. Rounding is not the cause: int16 does not help. Use max."
    )
    assert "cut off rare large values. Rounding" in text((2, 3))
    assert text((2,)).endswith("Hopeless: kl, 55 points worse.")  # kl with int16 is not hopeless
    assert text((0, 2)).endswith("Hopeless: max, kl, 1 to 55 points worse.")
