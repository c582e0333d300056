"""Cosine with the float model's outputs."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import InferenceError
from harness.metrics import open_metric
from harness.metrics.closeness import OutputCosine


def test_the_mean_cosine_of_images_and_outputs() -> None:
    random = np.random.default_rng(0)
    ours = [random.normal(size=(5, 3, 2)), 100 * random.normal(size=(5, 7))]
    floats = [output + 0.3 * random.normal(size=output.shape) for output in ours]
    metric = open_metric("cosine")
    assert isinstance(metric, OutputCosine)
    labels = metric.labels(floats)
    assert labels is not None
    score = metric.score(ours, labels)

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a.ravel() @ b.ravel() / np.linalg.norm(a) / np.linalg.norm(b))

    each = [np.mean([cosine(a[i], b[i]) for a, b in zip(ours, floats, strict=True)]) for i in range(5)]
    np.testing.assert_allclose(score.per_sample, each, atol=1e-6)
    assert score.value == pytest.approx(np.mean(each))
    assert metric.agreement(ours, ours) == pytest.approx(1.0, abs=1e-6)


def test_outputs_that_are_zero_in_both_models_are_alike() -> None:
    """A map without anything on it; zero in one model alone it counts nothing."""
    metric = open_metric("cosine")
    floats = [np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]), np.ones((3, 5))]
    ours = [np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 2.0]]), np.ones((3, 5))]
    labels = metric.labels(floats)
    assert labels is not None
    np.testing.assert_allclose(metric.score(ours, labels).per_sample, [1, 0.5, 0.5], atol=1e-6)


def test_opposite_outputs_and_nan_count_nothing() -> None:
    metric = open_metric("cosine")
    floats = [np.ones((2, 4))]
    labels = metric.labels(floats)
    assert labels is not None
    assert metric.score([np.array([[-1.0] * 4, [np.nan] * 4])], labels).value == 0


def test_labels_of_data_are_refused() -> None:
    with pytest.raises(InferenceError, match="labels: float"):
        open_metric("cosine").score([np.ones((2, 4))], np.array([0, 1]))


def test_agreement_counts_images_whose_largest_values_stay_where_they_are() -> None:
    floats = [np.array([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]]), np.array([[5.0, 0.0], [5.0, 0.0], [5.0, 0.0]])]
    ours = [np.array([[1.0, 1.5], [1.0, 3.0], [0.0, 1.0]]), np.array([[5.0, 1.0], [5.0, 0.0], [0.0, 5.0]])]
    assert open_metric("cosine", {"agreement": "top1"}).agreement(ours, floats) == pytest.approx(1 / 3)
    plain = open_metric("cosine")
    labels = plain.labels(floats)
    assert labels is not None
    assert plain.agreement(ours, floats) == plain.score(ours, labels).value
