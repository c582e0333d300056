"""Task metrics: scores, labels, functions of users."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.debug.bisection.task import TaskMetric, open_score, read_labels, top1
from engine.errors import CalibrationDataError, ConfigError, InferenceError


def test_labels_by_order_by_name_and_as_array(tmp_path: Path) -> None:
    (tmp_path / "order.csv").write_text("label\n3\n1\n2\n")
    assert read_labels(tmp_path / "order.csv", ["a", "b"]).tolist() == [3, 1]
    (tmp_path / "name.csv").write_text("b.npy, cat\na.npy, dog\n")
    assert read_labels(tmp_path / "name.csv", ["a", "b"]).tolist() == ["dog", "cat"]
    np.save(tmp_path / "boxes.npy", np.zeros((4, 5)))
    assert read_labels(tmp_path / "boxes.npy", ["0", "1"]).shape == (2, 5)
    for names, file in ((["a", "c"], "name.csv"), (["0"] * 5, "boxes.npy"), (["0"], "absent.csv")):
        with pytest.raises(CalibrationDataError, match="label"):
            read_labels(tmp_path / file, names)


def test_metrics_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bisect_metric_of_mine.py").write_text("def half(outputs, labels):\n    return 0.5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert open_score("bisect_metric_of_mine:half")([], np.zeros(0)) == 0.5
    for name in ("top2", "bisect_metric_of_mine:third", "no_such_module_here:half"):
        with pytest.raises(ConfigError, match="metric"):
            open_score(name)
    with pytest.raises(InferenceError, match="labels from 0 to 1"):
        top1([np.zeros((1, 2))], np.array([2]))


def test_top1_is_the_share_of_largest_scores_the_first_of_equal_ones() -> None:
    scores = np.asarray([[0.0, 1.0, 1.0], [3.0, 2.0, 1.0], [0.0, 0.0, 5.0]])
    assert top1([scores], np.asarray([1, 0, 1])) == 2 / 3
    assert top1([scores.reshape(3, 3, 1, 1)], np.asarray([2, 0, 2])) == 2 / 3


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.asarray([0, 1]), r"labels of shape \(2,\) for an output of shape \(3, 2\)"),
        (np.zeros((3, 1), int), r"labels of shape \(3, 1\)"),
        (np.asarray([0.5, 1, 1]), "needs labels from 0 to 1, not 0.5"),
        (np.asarray([0, 2, 0]), "needs labels from 0 to 1; the smallest is 0, the largest 2"),
        (np.asarray([0, -1, 0]), "the smallest is -1"),
    ],
)
def test_labels_that_are_no_classes(labels: np.ndarray, message: str) -> None:
    with pytest.raises(InferenceError, match=message):
        top1([np.zeros((3, 2))], labels)


def test_a_metric_of_fewer_samples() -> None:
    task = TaskMetric("sum", lambda outputs, labels: float(outputs[0].sum() + labels.sum()), np.asarray([1, 2, 4]))
    assert task.first(2).of([np.ones(3)]) == 6.0
    assert task.of([np.ones(3)]) == 10.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1\n2\n", [1, 2]), ("Label\n1\n2\n3\n", [1, 2]), ("1\nb\n", ["1", "b"]), ("\n 1 \n\n 2 \n", [1, 2])],
)
def test_labels_in_the_order_of_samples(tmp_path: Path, text: str, expected: list[object]) -> None:
    (tmp_path / "l.csv").write_text(text)
    assert read_labels(tmp_path / "l.csv", ["x", "y"]).tolist() == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no labels"),
        ("label\n", "holds no labels"),
        ("a,b,c\n", r"found rows of \[3\] columns"),
        ("1\na,2\n", r"found rows of \[1, 2\] columns"),
        ("1\n", "1 labels for 2 samples"),
        ("x,1\nz,2\n", r"no label for the samples \['y'\]"),
    ],
)
def test_files_without_the_labels(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(CalibrationDataError, match=message):
        read_labels(tmp_path / "l.csv", ["x", "y"])


def test_a_metric_that_is_no_function(tmp_path: Path) -> None:
    assert open_score("top1") is top1
    with pytest.raises(ConfigError, match="metric 'math:pi' is no function"):
        open_score("math:pi")
