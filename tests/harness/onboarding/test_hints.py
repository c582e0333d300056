"""What may be wrong with a card."""

from __future__ import annotations

from typing import Any

import pytest

from harness.onboarding.hints import preprocessing_hint, with_input
from harness.zoo.cards import Labels, ModelCard, load_card


def changed(name: str, **keys: Any) -> ModelCard:
    """A bundled card with other input parameters."""
    card = load_card(name)
    return with_input(card, {key: value for key, value in {**card.converter_yaml(), **keys}.items() if value})


@pytest.mark.parametrize("name", ["mnist_mobilenet", "scene_yolo"])
def test_a_right_card_has_no_hint(name: str) -> None:
    assert preprocessing_hint(load_card(name)) is None


@pytest.mark.nightly
def test_a_wrong_scale_is_named_with_what_it_should_be() -> None:
    hint = preprocessing_hint(changed("scene_yolo", norm_type="no_preprocess", scale_value=""))
    assert hint is not None
    assert hint.startswith("float map50 0.000 on 32 images is next to nothing: is the colour order or the mean wrong?")
    assert "With rgb 0..1 it is 0.9" in hint or "With bgr 0..1 it is 0.9" in hint


def test_a_wrong_mean_of_a_classifier() -> None:
    wrong = changed("mnist_mobilenet", norm_type="data_mean_and_scale", mean_value="900", scale_value="0.1")
    hint = preprocessing_hint(wrong)
    assert hint is not None
    assert "at chance level" in hint
    assert "and not 0.983 as the card says: is the colour order or the mean wrong? With gray 0..1 it is" in hint


def test_labels_of_the_float_model_tell_nothing() -> None:
    card = changed("scene_yolo", norm_type="no_preprocess", scale_value="")
    metric = card.metric.model_copy(update={"labels": Labels.FLOAT})
    assert preprocessing_hint(card.model_copy(update={"metric": metric})) is None
