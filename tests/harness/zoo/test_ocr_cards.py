"""Cards of the networks of rapidocr-onnxruntime: their float scores are what the cards say."""

from __future__ import annotations

import pytest

from engine.errors import ConfigError, MissingError, ModelError
from harness.metrics.recognition import EditSimilarity
from harness.zoo.cards import ModelCard, list_cards, load_card
from harness.zoo.float_baseline import float_score
from harness.zoo.model_sources import model_metadata

CARDS = list_cards("ocr_*")


@pytest.fixture(autouse=True)
def _package() -> None:
    try:
        CARDS[0].model_path()
    except MissingError as error:
        pytest.skip(f"extra packages: {error}")


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_float_score_is_near_that_of_the_card(card: ModelCard) -> None:
    """On a quarter of the images: three standard errors of so many."""
    score = float_score(card, card.dataset.evaluation.count // 4)
    assert score.value == pytest.approx(card.float_score.value, abs=3 * 2 * card.float_score.stderr)


def test_recognition_reads_its_characters_from_the_model() -> None:
    card = load_card("ocr_recognition")
    metric = card.open_metric()
    assert isinstance(metric, EditSimilarity)
    alphabet = metric.alphabet
    assert len(alphabet) == 6625
    assert alphabet[0] == ""
    assert {"A", "z", "0", " "} <= set(alphabet)


def test_metadata_that_a_model_lacks_are_named() -> None:
    card = load_card("ocr_recognition")
    assert list(model_metadata(card.model_path())) == ["character"]
    wrong = card.model_copy(update={"metric": card.metric.model_copy(update={"metadata": {"characters": "chars"}})})
    with pytest.raises(ModelError, match="no metadata chars; it has character"):
        wrong.open_metric()
    unknown = card.model_copy(update={"metric": card.metric.model_copy(update={"metadata": {"letters": "character"}})})
    with pytest.raises(ConfigError, match="letters"):
        unknown.open_metric()
