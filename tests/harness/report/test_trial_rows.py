"""The table of trials as data."""

from __future__ import annotations

from harness.gates.judgement import Judgement
from harness.report.results import Sweep, SweepSummary
from harness.report.trial_rows import table_of_trials
from harness.strict_yaml import parse
from harness.suites.suite import Suite
from harness.trials.trial import UnmetRequest
from tests.harness import fakes


def test_rows_have_a_value_per_column_and_filters_a_level_per_row() -> None:
    results = (
        fakes.result(fakes.spec()).model_copy(
            update={"unmet": (UnmetRequest(node="n", request="int16", reason="no"),)}
        ),
        fakes.failed(fakes.spec(settings=fakes.KL)),
    )
    suite = parse({"name": "mine", "version": 1, "models": "*", "sweep": {}}, Suite, "mine.yaml")
    specs = tuple(result.spec for result in results)
    summary = SweepSummary(
        suite=suite, trials=specs, started_at="", seconds=1.0, reused=0, engine="", judgement=Judgement()
    )
    table = table_of_trials(Sweep(summary, results), {spec.key: f"{index}.html" for index, spec in enumerate(specs)})
    first, second = table["rows"]
    assert len(first["values"]) == len(second["values"]) == len(table["columns"]) == len(table["decimals"])
    assert first["unmet"] == "n: int16: no"
    assert second["failed"].startswith("failed in stage quantize")
    assert first["values"][table["columns"].index("Δ pt")] == -5.0
    assert [(choice["name"], choice["of"]) for choice in table["filters"]] == [("calibration_type", [0, 1])]
