"""What outputs say stands in for labels, and parts of heads are told apart."""

from __future__ import annotations

import numpy as np
import pytest

from harness.metrics import open_metric
from harness.metrics.detection import Map50, Map50Options, decode_heads
from harness.trials.comparison import mean_cosines


class TestDecisions:
    """Labels, agreement and parts."""

    ROWS = Map50Options.model_validate({"classes": 2})

    def rows(self, *found: tuple[float, float, float, float, float, float]) -> np.ndarray:
        """One image with these rows: centre, size, score of each class."""
        return np.array([found], np.float32).transpose(0, 2, 1)

    def test_rows_of_decoded_boxes_become_detections(self) -> None:
        (decoded,) = decode_heads([self.rows((20, 20, 10, 20, 0.9, 0.1), (60, 60, 8, 8, 0.0, 0.001))], self.ROWS)
        np.testing.assert_allclose(decoded.boxes, [[15, 10, 25, 30]])
        assert decoded.classes.tolist() == [0]

    def test_agreement_of_a_detector_is_that_of_its_detections(self) -> None:
        """Scores fall below the threshold in quantisation: the cosine of all values hardly moves, agreement is lost."""
        metric = Map50(self.ROWS)
        floats = [self.rows((20, 20, 10, 20, 0.9, 0.1), (60, 60, 8, 8, 0.1, 0.8))]
        ours = [floats[0].copy()]
        assert metric.agreement(ours, floats) == 1.0
        ours[0][0, 4:, 1] = [0.8, 0.1]  # the other class
        assert metric.agreement(ours, floats) == 0.5
        values = [array[0].astype(np.float64).ravel() for array in (ours[0], floats[0])]
        assert values[0] @ values[1] / np.linalg.norm(values[0]) / np.linalg.norm(values[1]) > 0.999
        parts = mean_cosines(metric.parts(ours), metric.parts(floats))
        assert parts["boxes"] == pytest.approx(1.0)
        assert parts["classes"] < 0.7

    def test_read_only_outputs_are_decoded_once_and_others_each_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        decoded: list[int] = []
        monkeypatch.setattr(
            "harness.metrics.detection.decode_heads",
            lambda outputs, options: decoded.append(id(outputs[0])) or decode_heads(outputs, options),
        )
        metric = Map50(self.ROWS.model_copy(update={"size": (80, 80)}))
        ours, floats = ([self.rows((20, 20, 10, 20, 0.9, 0.1))] for _ in range(2))
        targets = metric.labels(floats)
        for array in (ours[0], floats[0]):
            array.flags.writeable = False
        decoded.clear()
        for _ in range(2):
            assert metric.score(ours, targets).value == metric.score(floats, targets).value == 1.0
            assert metric.agreement(ours, floats) == 1.0
            assert metric.by_class(ours, targets).tolist()[0] == 1.0
        assert len(decoded) == 2
        ours[0].flags.writeable = True
        again = [ours[0].copy()]
        for share in (0.9, 0.0):
            again[0][0, 4] = share
            assert metric.score(again, targets).value == (share > 0)
        assert len(decoded) == 4

    def test_a_float_model_that_finds_nothing_agrees_with_nobody(self) -> None:
        nothing = [self.rows((20, 20, 10, 20, 0.1, 0.1))]
        assert Map50(self.ROWS).agreement(nothing, nothing) is None

    def test_parts_of_heads_with_anchors(self) -> None:
        head = {"stride": 8, "anchors": [[8, 8], [16, 16]]}
        metric = Map50(Map50Options.model_validate({"classes": 3, "heads": [head]}))
        output = np.arange(2 * 16 * 4 * 4, dtype=np.float32).reshape(2, 16, 4, 4)
        parts = metric.parts([output])
        assert {name: part[0].shape for name, part in parts.items()} == {
            "boxes": (2, 2, 4, 16),
            "objectness": (2, 2, 1, 16),
            "classes": (2, 2, 3, 16),
        }
        np.testing.assert_array_equal(parts["objectness"][0][:, 1, 0], output[:, 12].reshape(2, -1))

    def test_agreement_of_a_classifier_is_the_share_of_equal_decisions(self) -> None:
        floats = [np.array([[0.1, 0.9], [0.8, 0.2], [0.5, 0.5], [0.0, 1.0]])]
        ours = [np.array([[0.2, 0.8], [0.3, 0.7], [0.5, 0.5], [0.0, 1.0]])]
        assert open_metric("top1").agreement(ours, floats) == 0.75
        assert open_metric("top5").agreement(ours, floats) == 0.75

    def test_agreement_of_masks_and_texts(self) -> None:
        masks = np.zeros((1, 2, 2, 2), np.float32)
        masks[0, 1] = [[1, -1], [1, -1]]
        changed = masks.copy()
        changed[0, 1, 0, 0] = -1
        assert open_metric("miou", {"classes": 2}).agreement([changed], [masks]) == pytest.approx((2 / 3 + 1 / 2) / 2)
        texts = open_metric("edit_similarity", {"characters": ["a", "b"], "space": False})
        line = np.eye(3)[[1, 0, 2]][np.newaxis]
        assert texts.agreement([line], [line]) == 1.0

    def test_classes_one_by_one(self) -> None:
        scores = np.eye(3)[[0, 0, 1, 1]]
        found = open_metric("top1").by_class([scores], np.array([0, 1, 1, 1]))
        np.testing.assert_allclose(found, [1, 2 / 3, np.nan])
