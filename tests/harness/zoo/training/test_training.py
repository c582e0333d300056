"""Training runs, is repeatable, and exports what the cards describe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from harness.files import paths
from harness.zoo.cards import ModelCard, list_cards, load_card
from tests.card_images import fed

BUNDLED = [card for card in list_cards() if card.source.bundled]


class TestTraining:
    @pytest.fixture(autouse=True)
    def _needs_torch(self) -> None:
        pytest.importorskip("torch", reason="training needs the extra zoo")

    @pytest.mark.parametrize("card", BUNDLED, ids=lambda card: card.name)
    def test_an_exported_network_computes_what_torch_does(self, card: ModelCard) -> None:
        import torch

        from harness.zoo.training.recipes import RECIPES
        from harness.zoo.training.training import exported

        recipe = RECIPES[card.name]
        torch.manual_seed(0)
        network = recipe.network().eval()
        session = onnxruntime.InferenceSession(exported(network, recipe), providers=["CPUExecutionProvider"])
        images = fed(card, card.open_dataset().split("calibration").images(0, 1))
        with torch.no_grad():
            outputs = network(torch.from_numpy(images))
        wanted = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
        assert [output.name for output in session.get_outputs()] == list(recipe.outputs)
        for found, expected in zip(session.run(None, {"image": images}), wanted, strict=True):
            np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)

    @pytest.mark.nightly
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
