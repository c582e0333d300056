"""The page, the summary and the row of the time series."""

from __future__ import annotations

import json
from datetime import date

from engine.chips import March
from engine.conformance.hunt.hunting import Findings, HuntSettings
from engine.conformance.hunt.report import hunt_page, sentence, series_row, summary_json
from engine.version import installed_version
from tests.engine.conformance.hunt.test_agreement import outcome
from tests.engine.conformance.hunt.test_groups import SIGNATURE, group

DAY = date(2026, 11, 26)
SETTINGS = HuntSettings(seed=7, marches=(March("bayes"), March("bayes-e")))
FINDINGS = Findings(
    SETTINGS,
    (
        *(outcome(index, True) for index in range(9)),
        outcome(9, False, signatures=(SIGNATURE,)),
        outcome(10, True, row=None, failure="took too long"),
    ),
    (group(shrunk=True),),
)


def test_the_figure_in_a_sentence() -> None:
    assert sentence(FINDINGS) == (
        "agreement on networks nobody chose: outputs equal 90.0 % (95 % interval 59.6 to 98.2; 10 of 11 draws)"
    )
    assert sentence(Findings(SETTINGS, (), ())) == "nothing can be compared yet (0 draws)"
    windows = Findings(SETTINGS.model_copy(update={"network": "1234"}), FINDINGS.outcomes, ())
    assert sentence(windows).startswith("agreement on windows of the network: outputs equal 90.0 %")


def test_the_page_has_tables_groups_and_what_gave_no_answer() -> None:
    text = hunt_page(FINDINGS, DAY)
    assert "| outputs | 90.0 % (59.6 to 98.2), 9 of 10 draws |" in text
    assert "| thresholds | 97.50 % of 40 |" in text
    assert "## Outputs by march" in text
    assert "| bayes-e | 5 | 80.0 % (37.6 to 96.4) |" in text
    assert f"1. {group(shrunk=True).sentence(1, 11)} `groups/{group().name}`" in text
    assert "- 10 (bayes): took too long" in text


def test_the_summary_holds_the_same() -> None:
    content = json.loads(summary_json(FINDINGS))
    assert (content["draws"], content["answered"], content["figure"]) == (11, 10, "outputs")
    assert content["measures"]["outputs"]["equal"] == 9
    assert content["by"]["block"]["c2f"]["total"] == 10
    assert content["groups"][0]["draws"] == 1
    assert content["unanswered"] == {"10": "took too long"}


def test_a_row_of_the_time_series() -> None:
    row = series_row(FINDINGS, DAY)
    assert row in hunt_page(FINDINGS, DAY).splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:5] == ["2026-11-26", installed_version(), "7", "bayes, bayes-e", "10"]
    assert cells[6] == "90.0 % (59.6 to 98.2)"
    assert cells[8] == "97.50 % of 40"
