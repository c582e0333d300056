"""What is kept of nights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.errors import ConfigError
from harness.gates.baseline import updated_baseline
from harness.gates.nights import NIGHTS_FILE, Night, append_night, read_nights, trial_night
from harness.gates.verdicts import Verdict
from harness.trials.trial import Outcome, TrialStore
from tests.harness import fakes
from tests.harness.finished import suite

SUITE = suite(version=3)


def night(name: str) -> Night:
    return Night(sweep=name, started_at="2026-01-01T00:00:00", version=1, verdict=Verdict.NO_GATE, engine="1")


def test_nights_are_kept_in_order_and_once(tmp_path: Path) -> None:
    assert read_nights(tmp_path) == []
    for name in ("a", "b", "a"):
        append_night(night(name), tmp_path)
    assert read_nights(tmp_path) == [night("a"), night("b")]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    append_night(night("a"), tmp_path)
    with (tmp_path / NIGHTS_FILE).open("a") as file:
        file.write("{\n")
    with pytest.raises(ConfigError, match=r"nights\.jsonl, line 2: is not a record of a night"):
        read_nights(tmp_path)


def test_a_loss_since_the_anchor_has_its_p_value(tmp_path: Path) -> None:
    spec = fakes.spec(evaluation_samples=500)
    store = TrialStore(tmp_path)
    before = fakes.result(spec, value=450 / 500)
    store.put(Outcome(before, (), {"per_sample": fakes.hits(450, 500)}))
    anchor = updated_baseline(None, SUITE, [before], store)
    worse = trial_night(fakes.result(spec, value=440 / 500), {"per_sample": fakes.hits(440, 500)}, anchor)
    equal = trial_night(before, {"per_sample": fakes.hits(450, 500)}, anchor)
    alone = trial_night(before, {"per_sample": fakes.hits(450, 500)}, None)
    assert worse is not None
    assert equal is not None
    assert alone is not None
    assert worse.p == pytest.approx(0.5**10)
    assert equal.p == 1.0
    assert alone.p is None
    assert worse.predictions != equal.predictions == alone.predictions
    assert trial_night(fakes.failed(spec), {}, anchor) is None
    assert np.isclose(worse.figures["accuracy.quantized"], 0.88)
