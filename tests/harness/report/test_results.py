"""What a sweep holds, and its tables."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import yaml
from pyarrow import parquet

from engine.config import CalibrationParameters, InputParameters, ModelParameters
from harness.gates.choice import Choice
from harness.gates.verdicts import Verdict
from harness.report.results import Sweep, pareto_yaml, sweep_folder, trial_rows, trials_csv, trials_parquet
from harness.trials.fragments import fragment
from tests.harness import fakes


def test_pareto_points_are_those_that_nothing_beats(sweep: Sweep) -> None:
    best = {result.spec.id for result in sweep.results if result.spec.key in sweep.front}
    assert best == {"one/bayes-e/kl", "two/bayes-e/max", "two/bayes-e/max-int16.all"}


def test_the_csv_holds_every_figure_and_failure(sweep: Sweep) -> None:
    rows = list(csv.DictReader(io.StringIO(trials_csv(sweep))))
    assert [row["verdict"] for row in rows] == ["NO GATE", "NO GATE", "NO GATE", "ERROR", "NO GATE"]
    assert float(rows[0]["accuracy.quantized"]) == 0.9
    assert rows[3]["failed_stage"] == "quantize"
    assert rows[3]["message"] == "no <b>rule</b> for Foo"


def test_parquet_and_csv_hold_the_same(sweep: Sweep) -> None:
    rows = parquet.read_table(io.BytesIO(trials_parquet(sweep))).to_pylist()
    lines = list(csv.DictReader(io.StringIO(trials_csv(sweep))))
    assert [{key: "" if value is None else str(value) for key, value in row.items()} for row in rows] == lines
    assert rows[4]["int16"] == "all"
    assert rows[1]["calibration_type"] == "kl"


def test_every_pareto_point_has_a_fragment_that_the_converter_takes(sweep: Sweep) -> None:
    fragments = list(yaml.safe_load_all(pareto_yaml(sweep)))
    assert len(fragments) == len(sweep.front | sweep.best)
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


def test_what_fails_is_no_pareto_point_and_what_comes_nearest_is_named(sweep: Sweep) -> None:
    result = sweep.results[0]
    choice = Choice(
        model="one",
        march=result.spec.march,
        best=None,
        nearest=result.spec.key,
        lacks="agreement 0.8769, the suite's floor is 0.95",
        compared=0,
        failing=2,
        samples=20,
        significance=0.05,
    )
    found = Sweep(sweep.summary.model_copy(update={"choices": (choice,)}), sweep.results)
    assert (found.front, found.alike) == (frozenset(), frozenset())
    text = pareto_yaml(found)
    assert text == (
        f"# one on bayes-e: no setting passes the gates; nearest: {result.spec.id} "
        "(agreement 0.8769, the suite's floor is 0.95)\n"
    )
    assert yaml.safe_load(text) is None


def test_trials_that_cannot_be_told_apart_need_company(sweep: Sweep) -> None:
    keys = [result.spec.key for result in sweep.results]
    choices = tuple(
        Choice(
            model=model,
            march=sweep.results[0].spec.march,
            best=alike[0],
            front=(keys[0],),
            alike=alike,
            compared=2,
            samples=20,
            significance=0.05,
        )
        for model, alike in (("one", tuple(keys[:1])), ("two", tuple(keys[2:4])))
    )
    found = Sweep(sweep.summary.model_copy(update={"choices": choices}), sweep.results)
    assert found.alike == set(keys[2:4])
    assert found.front == {keys[0]}
    assert found.best == {keys[0], keys[2]}
    documents = pareto_yaml(found).split("---\n")
    assert len(documents) == 2  # the recommended setting of the second model, though it has no star
    assert all(document.startswith("# recommended\n") for document in documents)


def test_a_sweep_is_as_bad_as_its_worst_trial(sweep: Sweep) -> None:
    assert sweep.verdict is Verdict.ERROR
    assert [result.spec.id for result in sweep.failed] == ["two/bayes-e/kl"]
    assert sweep.verdict_of("two/bayes-e/kl") is Verdict.ERROR
    assert sweep.verdict_of("one/bayes-e/kl") is Verdict.NO_GATE
    assert sweep.baseline is None


def test_every_row_has_the_columns_of_all(sweep: Sweep) -> None:
    rows = trial_rows(sweep)
    assert len({tuple(row) for row in rows}) == 1
    assert rows[3]["accuracy.quantized"] is None
    assert (rows[0]["failed_stage"], rows[3]["symptom"]) == (None, "refused")
    assert [row["int16"] for row in rows] == ["none"] * 4 + ["all"]
    assert rows[0]["calibration_samples"] == 10
    assert trials_csv(Sweep(sweep.summary, ())) == "\n"


def test_one_trial_is_a_table_too(sweep: Sweep) -> None:
    lines = trials_csv(Sweep(sweep.summary, sweep.results[:1])).splitlines()
    assert [line.split(",")[0] for line in lines] == ["trial", "one/bayes-e/max"]


def test_results_lie_by_suite() -> None:
    assert sweep_folder(Path("work"), "mine") == Path("work/sweeps/mine")
