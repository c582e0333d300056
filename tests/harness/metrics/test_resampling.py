"""Resamples: the same for all models on as many images."""

from __future__ import annotations

import numpy as np
import pytest

from harness.metrics.resampling import (
    LEAST,
    RESAMPLES,
    SPLITS,
    draws_of,
    means,
    resampled,
    sides,
    sides_of,
    spread,
    weightings,
)


@pytest.mark.parametrize("count", [LEAST, 5, 50, 401])
def test_every_image_is_on_one_side_of_every_split(count: int) -> None:
    found = sides(count)
    assert found.shape == (2 * SPLITS, count)
    np.testing.assert_array_equal(found[:SPLITS], ~found[SPLITS:])
    assert set(found[:SPLITS].sum(axis=1)) == {count // 2}
    np.testing.assert_array_equal(found, sides(count))


def test_every_image_chooses_and_reports() -> None:
    share = sides(50)[:SPLITS].mean(axis=0)
    assert share.min() > 0.1
    assert share.max() < 0.9


def test_the_order_of_a_data_set_does_not_tell_sides_apart() -> None:
    late = np.arange(1000) >= 500
    assert abs(late[sides(1000)[0]].mean() - 0.5) < 0.05


def test_too_few_images_have_no_sides() -> None:
    assert sides(LEAST - 1).shape == (0, LEAST - 1)
    assert len(weightings(LEAST - 1)) == RESAMPLES


def test_draws_are_with_replacement_and_repeatable() -> None:
    found = weightings(40)
    assert set(found[:RESAMPLES].sum(axis=1)) == {40}
    assert found[:RESAMPLES].max() > 2
    np.testing.assert_array_equal(found[RESAMPLES:], sides(40))
    np.testing.assert_array_equal(found, weightings(40))


def test_a_mean_is_resampled_as_any_metric() -> None:
    scores = np.random.RandomState(0).rand(30)
    values = resampled(lambda weights: weights @ scores / weights.sum(axis=1), 30)
    np.testing.assert_allclose(values, means(scores), rtol=1e-5)
    assert (len(draws_of(values)), len(sides_of(values))) == (RESAMPLES, 2 * SPLITS)
    assert spread(draws_of(values)) == pytest.approx(scores.std() / np.sqrt(30), rel=0.1)


def test_what_is_not_defined_takes_no_part_in_a_spread() -> None:
    assert spread(np.array([1.0, np.nan, 3.0])) == pytest.approx(np.sqrt(2))
    assert spread(np.array([np.nan, 1.0])) == 0
