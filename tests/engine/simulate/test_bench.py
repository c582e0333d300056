"""The speed measurement: what it returns and refuses; no speeds are asserted here."""

from __future__ import annotations

import pytest

from engine.errors import ConfigError, ModelError
from engine.simulate.bench import BenchOptions, _calls_per_second, bench
from tests.engine.simulate.test_session import IMAGE_MODEL, float_model


def test_one_row_per_batch() -> None:
    options = BenchOptions(batches=(1, 3), threads=1, rounds=2, seconds=0.0)
    rows = bench(IMAGE_MODEL, float_model(), options)
    assert [row.batch for row in rows] == [1, 3]
    for row in rows:
        figures = row.as_dict()
        assert row.float_images_per_s is not None
        assert figures["ratio_to_float"] == pytest.approx(row.images_per_s / row.float_images_per_s)
        assert all(value is not None and value > 0 for value in figures.values())


def test_float_model_and_reference_may_be_left_out() -> None:
    (row,) = bench(IMAGE_MODEL, options=BenchOptions(batches=(2,), rounds=1, seconds=0.0, reference=False))
    assert row.ratio_to_float is None
    assert row.ratio_to_reference is None


def test_wrong_options_and_models_are_refused() -> None:
    with pytest.raises(ConfigError, match="batches and rounds"):
        bench(IMAGE_MODEL, options=BenchOptions(batches=(0,)))
    with pytest.raises(ModelError, match="no quantised operators"):
        bench(float_model())


def test_rates_are_of_images_and_medians_of_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls per second by turns: 1, 2, 3 of every contender."""
    rates = iter([1.0, 10.0, 100.0, 3.0, 30.0, 300.0, 2.0, 20.0, 200.0])
    monkeypatch.setattr("engine.simulate.bench._calls_per_second", lambda *_, **__: next(rates))
    options = BenchOptions(batches=(4,), threads=1, rounds=3)
    (row,) = bench(IMAGE_MODEL, float_model(), options)
    assert (row.images_per_s, row.float_images_per_s, row.reference_images_per_s) == (8.0, 80.0, 200.0)
    assert (row.ratio_to_float, row.ratio_to_reference) == (0.1, 0.04)


def test_a_turn_takes_its_time_and_the_first_call_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call takes a second; 2.5 seconds are three calls."""
    clock = [0.0]
    monkeypatch.setattr("engine.simulate.bench.time.perf_counter", lambda: clock[0])

    def call() -> None:
        clock[0] += 1.0

    assert _calls_per_second(call, 2.5) == 1.0
    assert clock[0] == 4.0
    assert _calls_per_second(call, 0.0, warm=False) == 1.0
    assert clock[0] == 5.0
