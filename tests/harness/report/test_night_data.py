"""Earlier nights on a page."""

from __future__ import annotations

from typing import Any

import pytest

from harness.gates.nights import Night, TrialNight
from harness.gates.verdicts import Verdict
from harness.report import night_data
from harness.report.night_data import nights_data
from harness.report.results import Sweep


def night(sweep: str, **accuracies: float) -> Night:
    trials: dict[str, Any] = {
        name: TrialNight(figures={"accuracy.quantized": value}, predictions="p") for name, value in accuracies.items()
    }
    return Night(
        sweep=sweep, started_at=f"2026-01-0{sweep}T02:00:00", version=1, verdict=Verdict.PASS, engine="1", trials=trials
    )


def test_earlier_nights_stand_beside_the_trials_of_this_one_the_last_first(sweep: Sweep) -> None:
    ids = [result.spec.id for result in sweep.results]
    own = sweep.summary.model_copy(update={"id": "3"})
    found = nights_data(
        Sweep(own, sweep.results),
        [night("1", gone=0.5), night("2", **{ids[0]: 0.123456789}), night("3", **{ids[0]: 0.5})],
    )
    place = found["figures"].index("accuracy.quantized")
    assert [each["at"] for each in found["nights"]] == ["2026-01-02 02:00", "2026-01-01 02:00"]
    assert found["nights"][0]["values"][place] == [0.1234568, None, None, None, None]
    assert found["nights"][1]["gone"] == ["gone"]
    assert found["now"][place][:2] == [0.9, 0.92]
    assert (found["trials"], found["left"]) == (ids, 0)


def test_a_page_holds_so_many_figures_of_them(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(night_data, "MOST_VALUES", 30)
    found = nights_data(sweep, [night(str(number), a=0.5) for number in range(1, 6)])
    assert [each["at"][:10] for each in found["nights"]] == ["2026-01-05", "2026-01-04"]
    assert found["left"] == 3
