"""Top-k accuracy against cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import InferenceError
from harness.metrics.base import NoOptions
from harness.metrics.classification import Top1, Top5


class TestTopK:
    LOGITS = np.array([[1, 5, 3], [4, 4, 0], [4, 4, 0], [0, 1, 2]], np.float32)
    CLASSES = np.array([1, 0, 1, 0])

    def test_equal_outputs_rank_by_index(self) -> None:
        score = Top1(NoOptions()).score([self.LOGITS], self.CLASSES)
        assert score.per_sample.tolist() == [1, 1, 0, 0]
        assert score.value == 0.5
        assert score.stderr == pytest.approx(np.sqrt(0.25 / 4))

    def test_per_sample_agrees_with_argmax(self) -> None:
        random = np.random.RandomState(1)
        logits = random.randint(-4, 4, size=(500, 10)).astype(np.float32)  # many ties, as integers give
        classes = random.randint(10, size=500)
        score = Top1(NoOptions()).score([logits], classes)
        np.testing.assert_array_equal(score.per_sample, logits.argmax(axis=1) == classes)

    def test_top5(self) -> None:
        logits = np.arange(8, dtype=np.float32)[np.newaxis].repeat(8, axis=0)
        assert Top5(NoOptions()).score([logits], np.arange(8)).per_sample.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]

    def test_trailing_dimensions_of_size_one(self) -> None:
        assert Top1(NoOptions()).score([self.LOGITS[:, :, None, None]], self.CLASSES).value == 0.5

    def test_nan_is_wrong(self) -> None:
        score = Top1(NoOptions()).score([np.array([[np.nan, 1], [1, np.nan], [1, 0]], np.float32)], np.array([0, 0, 0]))
        assert score.per_sample.tolist() == [0, 0, 1]

    @pytest.mark.parametrize(
        ("outputs", "classes"),
        [
            ([LOGITS, LOGITS], CLASSES),
            ([LOGITS[:2]], CLASSES),
            ([LOGITS], np.array([1, 0, 1, 3])),
            ([LOGITS[:0]], CLASSES[:0]),
        ],
    )
    def test_outputs_that_do_not_fit(self, outputs: list[np.ndarray], classes: np.ndarray) -> None:
        with pytest.raises(InferenceError, match="top1"):
            Top1(NoOptions()).score(outputs, classes)

    def test_equal_outputs_rank_by_index_in_top5_too(self) -> None:
        score = Top5(NoOptions()).score([np.zeros((7, 7), np.float32)], np.arange(7))
        assert score.per_sample.tolist() == [1, 1, 1, 1, 1, 0, 0]

    def test_messages_say_what_is_wanted(self) -> None:
        with pytest.raises(InferenceError, match=r"^top1: target class 3, the output has 3 classes$"):
            Top1(NoOptions()).score([self.LOGITS], np.array([1, 0, 1, 3]))
        with pytest.raises(InferenceError, match=r"^top1 needs at least one image$"):
            Top1(NoOptions()).score([self.LOGITS[:0]], self.CLASSES[:0])
        with pytest.raises(InferenceError, match=r"^top5 needs one output with one row per target$"):
            Top5(NoOptions()).score([self.LOGITS], ["a"] * 4)
