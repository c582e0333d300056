"""The resamples that every metric is computed on: the same ones for all models on as many images.

Values on the same resamples are paired: the spread of their differences is that of the difference itself (the paired
bootstrap, Efron and Tibshirani, An Introduction to the Bootstrap, chapter 8), whatever the metric is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
"""Draws of as many images with replacement."""
SPLITS = 25
"""Random halves; each has two sides, which choose for each other."""
LEAST = 4
"""Images from which there are halves."""

_SEED = 0

Statistic = Callable[[NDArray[np.float32]], NDArray[np.float64]]
"""From weights, float32, shape (rows, images), to the metric of each row, shape (rows,); NaN where it is undefined."""


@lru_cache(maxsize=2)
def weightings(images: int) -> NDArray[np.float32]:
    """How often each image counts, shape (rows, images): :data:`RESAMPLES` draws, then the sides of :func:`sides`."""
    random = np.random.RandomState(_SEED)
    draws = random.randint(images, size=(RESAMPLES, images)) if images else np.zeros((RESAMPLES, 0), np.int64)
    places = draws + images * np.arange(RESAMPLES)[:, np.newaxis]
    counts = np.bincount(places.reshape(-1), minlength=RESAMPLES * images).reshape(RESAMPLES, images)
    found = np.concatenate([counts, sides(images)]).astype(np.float32)
    found.setflags(write=False)
    return found


@lru_cache(maxsize=8)
def sides(images: int) -> NDArray[np.bool_]:
    """Which images belong to a side, shape (2 * SPLITS, images): the first halves of all splits, then the second ones.

    Drawn at random: any order of a data set (by class, by time) would otherwise make the halves differ. No rows where
    there are fewer images than :data:`LEAST`.
    """
    if images < LEAST:
        return np.zeros((0, images), bool)
    random = np.random.RandomState(_SEED)
    first = np.zeros((SPLITS, images), bool)
    for row in first:
        row[random.permutation(images)[: images // 2]] = True
    found = np.concatenate([first, ~first])
    found.setflags(write=False)
    return found


def resampled(statistic: Statistic, images: int) -> NDArray[np.float64]:
    """``statistic`` of every row of :func:`weightings`, shape (rows,)."""
    return np.asarray(statistic(weightings(images)), np.float64)


def draws_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The part of :func:`resampled` that are draws, shape (RESAMPLES,)."""
    return values[:RESAMPLES]


def sides_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The part of :func:`resampled` that are sides, shape (2 * SPLITS,) or (0,)."""
    return values[RESAMPLES:]


def means(per_sample: NDArray[np.float64]) -> NDArray[np.float64]:
    """:func:`resampled` of a metric that is the mean of the images' scores, shape (rows,).

    Args:
        per_sample: shape (images,).
    """
    weights = weightings(len(per_sample))
    return np.asarray(weights @ per_sample.astype(np.float64) / weights.sum(axis=1), np.float64)


def spread(values: NDArray[np.float64]) -> float:
    """Standard deviation of the defined ones of ``values``; 0 for fewer than two."""
    known = values[np.isfinite(values)]
    return float(np.std(known, ddof=1)) if len(known) > 1 else 0.0
