"""Recipes are those that the bundled cards tell of."""

from __future__ import annotations

import re

import onnx
import pytest

pytest.importorskip("torch", reason="training needs the extra zoo")

from harness.zoo.cards import list_cards
from harness.zoo.training.recipes import ANCHORS, RECIPES
from harness.zoo.training.training import OPSET, SEED

BUNDLED = {card.name: card for card in list_cards() if card.source.bundled}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_that_of_its_card(name: str) -> None:
    card, recipe = BUNDLED[name], RECIPES[name]
    assert (card.task, card.dataset.name, card.description) == (recipe.task, recipe.dataset, recipe.description)
    assert (card.dataset.calibration.count, card.dataset.evaluation.count) == recipe.images
    assert card.metric.name == recipe.metric["name"]
    assert dict(card.metric.options) == recipe.metric.get("options", {})
    assert card.tags == ("bundled", *recipe.tags)
    told = re.sub(r"torch [\d.]+", "torch", card.origin)
    assert told == f"python -m harness.zoo.training {name} (seed {SEED}, {recipe.epochs} epochs, torch, opset {OPSET})"
    outputs = onnx.load(card.model_path()).graph.output
    assert tuple(output.name for output in outputs) == recipe.outputs


def test_every_bundled_model_has_a_recipe() -> None:
    assert set(RECIPES) == set(BUNDLED)


def test_what_no_card_tells() -> None:
    """Images per step and peak learning rates with which the bundled weights were trained."""
    assert {name: (recipe.batch, recipe.rate) for name, recipe in RECIPES.items()} == {
        "mnist_lenet": (64, 6e-3),
        "mnist_resnet8": (64, 6e-3),
        "mnist_mobilenet": (64, 6e-3),
        "scene_yolo": (32, 5e-3),
        "scene_unet": (16, 6e-3),
    }
    assert [head["stride"] for head in ANCHORS] == [8, 16]
