"""The speed measurement: what it returns and refuses; no speeds are asserted here."""

from __future__ import annotations

import pytest

from engine.errors import ConfigError, ModelError
from engine.simulate.bench import BenchOptions, bench
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
