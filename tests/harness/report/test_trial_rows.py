"""The table of trials as data."""

from __future__ import annotations

from pathlib import Path

from harness.report.columns import columns
from harness.report.results import trial_rows
from harness.report.trial_rows import table_of_trials
from harness.trials.artefacts import Artefact
from harness.trials.trial import TrialStore, UnmetRequest
from tests.harness import fakes, finished


def test_rows_have_a_value_per_column_and_filters_a_level_per_row(tmp_path: Path) -> None:
    results = (
        fakes.result(fakes.spec()).model_copy(
            update={"unmet": (UnmetRequest(node="n", request="int16", reason="no"),)}
        ),
        fakes.failed(fakes.spec(settings=fakes.KL)),
    )
    pages = {result.spec.key: f"{index}.html" for index, result in enumerate(results)}
    table = table_of_trials(finished.sweep(results), pages, TrialStore(tmp_path), columns())
    first, second = table["rows"]
    assert len(first["values"]) == len(second["values"]) == len(table["columns"]) == len(table["decimals"])
    assert first["unmet"] == "n: int16: no"
    assert second["failed"].startswith("failed in stage quantize")
    assert first["values"][table["columns"].index("Δ pt")] == -5.0
    assert [(choice["name"], choice["of"]) for choice in table["filters"]] == [("calibration_type", [0, 1])]


def test_a_setting_that_changed_nothing_names_the_one_whose_figures_it_has(tmp_path: Path) -> None:
    specs = fakes.spec(), fakes.spec(settings=fakes.Settings(per_channel=True))
    results = tuple(fakes.result(spec).model_copy(update={"artefacts": {Artefact.QUANTIZED: "0123"}}) for spec in specs)
    sweep = finished.sweep(results)
    table = table_of_trials(sweep, {spec.key: "page" for spec in specs}, TrialStore(tmp_path), columns())
    first, second = table["rows"]
    assert "same" not in first
    assert second["same"] == specs[0].id
    assert second["values"][0].endswith("=")
    assert [row["same_as"] for row in trial_rows(sweep)] == [None, specs[0].id]
