"""The gate on real conversions: quiet where nothing changed, loud about a planted loss of one point."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.gates.verdicts import Verdict
from harness.trials.tasks import Bench
from tests.e2e.gate_power import BASELINE_DRAWS, SEEDS, judge_draws, judge_losses, make_suite, run


@pytest.mark.nightly
def test_twenty_draws_raise_no_alarm_and_a_lost_point_is_caught(tmp_path: Path) -> None:
    suite, bench = make_suite(["mnist_lenet"]), Bench(tmp_path)
    configurations = run(suite, bench)
    assert [len(draws) for draws in configurations] == [BASELINE_DRAWS + SEEDS] * 2
    for draws in configurations:
        assert {verdict.verdict for verdict in judge_draws(draws, suite, bench)} == {Verdict.PASS}
        assert {verdict.verdict for verdict in judge_losses(draws, suite, bench)} == {Verdict.REGRESSION}
