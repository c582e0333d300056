"""Float scores are measured on the evaluation images of the card, and are those of the bundled cards."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from harness.datasets.base import ArraySplit, Samples
from harness.zoo import float_baseline
from harness.zoo.cards import ModelCard, TaskKind, list_cards, load_card
from harness.zoo.float_baseline import float_outputs, float_score

BARS = {TaskKind.CLASSIFICATION: 0.98, TaskKind.DETECTION: 0.85, TaskKind.SEGMENTATION: 0.85}
BUNDLED = [card for card in list_cards() if card.source.bundled]


@pytest.mark.nightly
@pytest.mark.parametrize("card", BUNDLED, ids=lambda card: card.name)
def test_float_score_is_what_the_card_says_and_above_the_bar(card: ModelCard) -> None:
    """All evaluation images of the card; another processor may round a few outputs the other way."""
    score = float_score(card)
    assert score.value >= BARS[card.task]
    assert score.value == pytest.approx(card.float_score.value, abs=0.003)
    assert score.stderr == pytest.approx(card.float_score.stderr, rel=0.2)
    assert len(score.per_sample) == card.dataset.evaluation.count


def test_part_of_the_images() -> None:
    card = load_card("mnist_lenet")
    (some,), (all_of_them,) = float_outputs(card, 70), float_outputs(card, 130)
    np.testing.assert_array_equal(some, all_of_them[:70])


def test_imagenet_score() -> None:
    card = load_card("efficientnet_lite0")
    folders = [Path(os.environ.get(name, "")) for name in ("PTQLAB_DATA", "PTQLAB_MODELS")]
    if not (folders[0] / "imagenet_sample").is_dir() or not (folders[1] / "efficientnet_lite0.onnx").is_file():
        pytest.skip("no imagenet_sample or efficientnet_lite0.onnx: set PTQLAB_DATA and PTQLAB_MODELS")
    assert float_score(card, 100).value == pytest.approx(card.float_score.value, abs=0.1)


def test_images_are_read_16_at_a_time_and_run_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread, so that sums have one order; outputs are joined over the images."""
    read: list[tuple[int, int]] = []
    file = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [])), file)

    class Counted(ArraySplit):
        def take(self, start: int = 0, stop: int | None = None) -> Samples:
            read.append((start, stop or 0))
            return super().take(start, stop)

    def session(path: Path, options: Any, providers: list[str]) -> SimpleNamespace:
        assert (path, options.intra_op_num_threads, providers) == (file, 1, ["CPUExecutionProvider"])
        return SimpleNamespace(
            get_outputs=lambda: ["a", "b"], run=lambda names, feed: [feed["image"] + 1, -feed["image"][:, :1]]
        )

    pixels = np.arange(130 * 2, dtype=np.uint8).reshape(130, 2)
    card: Any = SimpleNamespace(
        model_path=lambda: file,
        float_inputs=lambda samples: {"image": samples["image"].astype(np.float32)},
        open_metric=lambda: SimpleNamespace(score=lambda outputs, targets: (outputs, targets)),
        targets=lambda split, total, outputs: split.targets(0, total),
    )
    split = Counted("evaluation", pixels, np.arange(130))
    monkeypatch.setattr("onnxruntime.InferenceSession", session)
    monkeypatch.setattr(float_baseline, "evaluation_images", lambda card, count: (split, count))
    first, second = float_outputs(card, 130)
    np.testing.assert_array_equal(first, pixels + np.float32(1))
    np.testing.assert_array_equal(second, -pixels[:, :1].astype(np.float32))
    assert read == [*((at, at + 16) for at in range(0, 128, 16)), (128, 130)]
    again = float_outputs(card, 130, threads=3)
    assert [array.tolist() for array in again] == [first.tolist(), second.tolist()]
    outputs, targets = float_score(card, 3)  # type: ignore[misc]
    assert (len(outputs[0]), targets.tolist()) == (3, [0, 1, 2])
