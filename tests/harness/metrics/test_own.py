"""Metrics of the user's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from engine.errors import ConfigError, InferenceError
from harness.metrics import open_metric
from harness.metrics.own import OwnMetric
from harness.metrics.resampling import means

OWN = """
import numpy as np

def share(outputs, targets, limit=0.5):
    return (outputs[0][:, 0] > limit) == np.asarray(targets).astype(bool)

def whole(outputs, targets):
    return float(np.mean(share(outputs, targets)))

def labels(outputs, limit=0.5):
    return (outputs[0][:, 0] > limit).astype(np.int64)

share.labels = labels
broken = 3
"""


class TestOwnMetric:
    """``module:function`` of the user's own, found as in a script of the current folder."""

    OUTPUTS: ClassVar = [np.array([[0.9], [0.2], [0.7], [0.1]])]
    TARGETS = np.array([1, 0, 0, 0])

    @pytest.fixture(autouse=True)
    def module(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "own_metric_module.py").write_text(OWN)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.delitem(sys.modules, "own_metric_module", raising=False)

    def test_a_score_per_sample(self) -> None:
        score = open_metric("own_metric_module:share", {"limit": 0.5}).score(self.OUTPUTS, self.TARGETS)
        assert score.value == 0.75
        assert score.per_sample.tolist() == [1, 1, 0, 1]

    def test_one_number_is_split_by_sample(self) -> None:
        score = open_metric("own_metric_module:whole").score(self.OUTPUTS, self.TARGETS)
        assert (score.value, score.per_sample.tolist()) == (0.75, [1, 1, 0, 1])

    def test_one_number_is_resampled_by_its_linear_part(self) -> None:
        """Of a mean that is all there is: the values on resamples are those of the mean."""
        random = np.random.RandomState(0)
        outputs, targets = [random.rand(40, 1)], random.randint(2, size=40)
        each = open_metric("own_metric_module:share").score(outputs, targets)
        whole = open_metric("own_metric_module:whole").score(outputs, targets)
        assert each.resampled is None
        assert whole.resampled is not None
        np.testing.assert_allclose(whole.resampled, means(each.per_sample), atol=1e-5)
        assert whole.stderr == pytest.approx(each.stderr, rel=0.1)

    def test_its_labels_give_agreement(self) -> None:
        metric = open_metric("own_metric_module:share")
        assert metric.agreement(self.OUTPUTS, [1 - self.OUTPUTS[0]]) == 0.0
        assert open_metric("own_metric_module:whole").agreement(self.OUTPUTS, self.OUTPUTS) is None

    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("own_metric_module:absent", {}, "absent"),
            ("no_such_module:x", {}, "no_such_module"),
            ("own_metric_module:broken", {}, "is int, expected a function"),
            ("own_metric_module:share", {"bound": 1}, "does not take .* the options: .*bound"),
        ],
    )
    def test_wrong_names_and_options(self, name: str, options: dict[str, float], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            open_metric(name, options)


def test_scores_that_are_no_numbers_are_refused() -> None:
    metric = OwnMetric("mine:nan", lambda outputs, targets: np.full(len(outputs[0]), np.nan), {})
    with pytest.raises(InferenceError, match="expected a finite number for each, or one"):
        metric.score([np.zeros((2, 3))], np.zeros(2, np.int64))
