"""Images of a card with one input, as its network takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.datasets import Images
from harness.zoo.cards import ModelCard

Array = np.ndarray[Any, Any]


def trained(card: ModelCard, images: Images) -> Array:
    """``images`` of the card's data set as the network was trained on them, uint8."""
    (found,) = card.training_inputs({"image": images}).values()
    return found


def fed(card: ModelCard, images: Images) -> Array:
    """The same normalised, as the float model takes them."""
    (found,) = card.float_inputs({"image": images}).values()
    return found
