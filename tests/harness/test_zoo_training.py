"""Scores of the bundled models are real; the training code runs and exports what the cards describe."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from harness import paths
from harness.datasets import open_dataset
from harness.metrics.detection import Map50Options, decode_heads, score_detections
from harness.zoo.cards import ModelCard, TaskKind, list_cards, load_card
from harness.zoo.float_baseline import float_outputs, float_score

BARS = {TaskKind.CLASSIFICATION: 0.98, TaskKind.DETECTION: 0.85, TaskKind.SEGMENTATION: 0.85}
BUNDLED = [card for card in list_cards() if card.source.bundled]


@pytest.mark.parametrize("card", BUNDLED, ids=lambda card: card.name)
def test_float_score_is_what_the_card_says_and_above_the_bar(card: ModelCard) -> None:
    """All held-out images of the card; another processor may round a few outputs the other way."""
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


class TestTraining:
    @pytest.fixture(autouse=True)
    def _needs_torch(self) -> None:
        pytest.importorskip("torch", reason="training needs the extra zoo")

    def test_every_bundled_model_has_a_recipe(self) -> None:
        from harness.zoo.training.recipes import RECIPES

        assert set(RECIPES) == {card.name for card in BUNDLED}
        for card in BUNDLED:
            recipe = RECIPES[card.name]
            assert (card.task, card.dataset.name, card.metric.name) == (
                recipe.task,
                recipe.dataset,
                recipe.metric["name"],
            )
            assert (card.dataset.calibration.count, card.dataset.evaluation.count) == recipe.images

    @pytest.mark.parametrize("card", BUNDLED, ids=lambda card: card.name)
    def test_an_exported_network_computes_what_torch_does(self, card: ModelCard) -> None:
        import torch

        from harness.zoo.training.recipes import RECIPES
        from harness.zoo.training.training import exported

        recipe = RECIPES[card.name]
        torch.manual_seed(0)
        network = recipe.network().eval()
        session = onnxruntime.InferenceSession(exported(network, recipe), providers=["CPUExecutionProvider"])
        images = card.float_inputs(card.open_dataset().split("calibration").images(0, 1))
        with torch.no_grad():
            outputs = network(torch.from_numpy(images))
        wanted = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
        assert [output.name for output in session.get_outputs()] == list(recipe.outputs)
        for found, expected in zip(session.run(None, {"image": images}), wanted, strict=True):
            np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)

    def test_detection_loss_decreases_to_boxes_that_the_metric_finds(self) -> None:
        """Free head values, fitted to the loss alone, decode to the targets: loss and metric agree on the format."""
        import torch

        from harness.zoo.training.losses import detection_loss

        options = Map50Options.model_validate(load_card("scene_yolo").metric.options)
        scenes = open_dataset("scenes").split("train").targets(0, 8)
        heads = [torch.zeros(8, 30, side, side, requires_grad=True) for side in (12, 6)]
        optimizer = torch.optim.Adam(heads, 0.2)
        for _ in range(150):
            optimizer.zero_grad()
            loss = detection_loss(heads, scenes, options)
            loss.backward()
            optimizer.step()
        found = decode_heads([head.detach().numpy() for head in heads], options)
        assert score_detections(found, scenes, options.classes).value > 0.95

    def test_making_a_model_writes_file_and_card(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """One epoch, twice: the same file both times, and a card that reads back with a measured score."""
        from harness.zoo.training import training

        monkeypatch.setattr(paths, "suites", lambda: (tmp_path,))
        folder = tmp_path / "zoo"
        folder.mkdir()
        recipe = replace(training.RECIPES["mnist_lenet"], epochs=1)
        monkeypatch.setattr(training, "RECIPES", {"mnist_lenet": recipe})
        lines: list[str] = []
        first = training.make("mnist_lenet", folder, lines.append)
        assert training.make("mnist_lenet", folder, lines.append).digest == first.digest
        assert [line.split(":")[0] for line in lines] == ["epoch 1/1", "epoch 1/1"]
        assert 0.5 < first.float_score.value < 1
        assert first == load_card("mnist_lenet")
        assert {path.name for path in folder.iterdir()} == {"mnist_lenet.onnx", "mnist_lenet.yaml"}
