"""What ``compatibility`` costs: pairs of a sweep, their test, the section of the page and the line for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.terms import CalibrationType, Compatibility
from harness.gates.judgement import References
from harness.report.compatibility import compatibility_line, compatibility_pairs
from harness.report.page import render
from harness.report.results import Sweep
from harness.suites.settings import Settings
from harness.trials.trial import Outcome, TrialResult, TrialStore
from tests.harness import fakes, finished

Scored = tuple[TrialResult, NDArray[np.float64] | None]
"""A trial and its scores per sample."""

CLEAN = Settings(compatibility=Compatibility.CLEAN)
CLEAN_KL = Settings(calibration_type=CalibrationType.KL, compatibility=Compatibility.CLEAN)


def sweep_of(folder: Path, trials: Sequence[Scored]) -> tuple[Sweep, TrialStore]:
    """A judged sweep whose trials have these scores per sample."""
    store = TrialStore(folder / "trials")
    for result, scores in trials:
        store.put(Outcome(result, (), None if scores is None else {"per_sample": scores}))
    suite = finished.suite(models="*")
    results = tuple(result for result, _ in trials)
    judgement = References().judge(suite, results, store, tuple(result.spec for result in results))
    return finished.sweep(results, suite=suite, judgement=judgement), store


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Sweep, TrialStore]:
    """``clean`` is right on 12 of 40 samples more; a pair of equal kl trials; trials without a partner."""
    return sweep_of(
        tmp_path,
        [
            (fakes.result(fakes.spec(), value=0.6, cosine=0.98), fakes.hits(24)),
            (fakes.result(fakes.spec(settings=fakes.KL), value=0.9), fakes.hits(36)),
            (fakes.result(fakes.spec(settings=fakes.INT16), value=0.9), fakes.hits(36)),
            (fakes.result(fakes.spec(settings=CLEAN), value=0.9, latency=1.25), fakes.hits(36)),
            (fakes.result(fakes.spec(settings=CLEAN_KL), value=0.9), fakes.hits(36)),
            (fakes.result(fakes.spec("other", CLEAN), value=0.9), fakes.hits(36)),
        ],
    )


def test_trials_that_differ_in_compatibility_alone_are_paired(pair: tuple[Sweep, TrialStore]) -> None:
    found = compatibility_pairs(*pair)
    assert [(each.original.spec.settings, each.clean.spec.settings) for each in found] == [
        (Settings(), CLEAN),
        (fakes.KL, CLEAN_KL),
    ]
    assert [each.gain for each in found] == [pytest.approx(0.3), 0.0]
    assert found[0].change("latency.ms") == 0.25


def test_samples_are_tested_in_pairs_and_for_the_number_of_pairs(pair: tuple[Sweep, TrialStore]) -> None:
    first, second = (each.test for each in compatibility_pairs(*pair))
    assert first is not None
    assert second is not None
    assert (first.better, first.worse) == (12, 0)
    assert first.p == pytest.approx(2 * 2 * 0.5**12)  # two directions, two pairs
    error = 1.959964 * np.sqrt(0.3 * 0.7 / 39)
    assert first.interval == pytest.approx((0.3 - error, 0.3 + error))
    assert (second.better, second.worse, second.p, second.interval) == (0, 0, 1.0, (0.0, 0.0))


def test_less_of_an_error_is_a_gain(tmp_path: Path) -> None:
    trials = []
    for settings, value in ((Settings(), 0.5), (CLEAN, 0.25)):
        result = fakes.result(fakes.spec(settings=settings), value=value)
        accuracy = result.accuracy.model_copy(update={"higher_is_better": False}) if result.accuracy else None
        trials.append((result.model_copy(update={"accuracy": accuracy}), fakes.hits(int(40 * value))))
    (found,) = compatibility_pairs(*sweep_of(tmp_path, trials))
    assert (found.accuracy, found.gain) == (-0.25, 0.25)
    assert found.test is not None
    assert (found.test.better, found.test.worse) == (10, 0)


def test_failed_trials_and_trials_on_other_data_make_no_pair(tmp_path: Path) -> None:
    trials = (
        fakes.result(fakes.spec()),
        fakes.failed(fakes.spec(settings=CLEAN)),
        fakes.result(fakes.spec(settings=fakes.KL)),
        fakes.result(fakes.spec(settings=CLEAN_KL, data="other-data")),
    )
    sweep, store = sweep_of(tmp_path, [(trial, None) for trial in trials])
    assert compatibility_pairs(sweep, store) == ()
    assert compatibility_line((), 0.05) == ""
    assert "compatibility costs" not in render(sweep, tmp_path)


def test_without_scores_there_is_a_difference_and_no_test(tmp_path: Path) -> None:
    trials = [fakes.result(fakes.spec(settings=settings), value=0.5) for settings in (Settings(), CLEAN)]
    sweep, store = sweep_of(tmp_path, [(trial, None) for trial in trials])
    (found,) = compatibility_pairs(sweep, store)
    assert (found.test, found.accuracy) == (None, 0.0)
    assert "What compatibility costs" in render(sweep, tmp_path)


def test_the_page_has_a_row_per_pair(pair: tuple[Sweep, TrialStore], tmp_path: Path) -> None:
    text = render(pair[0], tmp_path)
    section = text[text.index("What compatibility costs") : text.index(">Trials</h2>")]
    assert section.count("<tr>") == 2 + 2
    assert "<td>0.6000</td><td>0.9000</td><td>-35.00</td><td>-5.00</td><td><b>+30.00</b></td>" in section
    assert "<td>12 / 0</td><td>0.00098</td><td>0.98000</td><td>0.99000</td><td>1.000</td><td>1.250</td>" in section
    assert "corrected for 2 pairs" in section


def test_the_terminal_gets_one_line(pair: tuple[Sweep, TrialStore]) -> None:
    line = compatibility_line(compatibility_pairs(*pair), significance=0.05)
    assert line == (
        "compatibility: clean against original in 2 pairs: accuracy +15.00 points in the mean, +0.00 to +30.00; "
        "significantly better in 1, worse in 0"
    )
