"""Outputs of a model, one row per image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


def images_first(outputs: Sequence[Array], count: int) -> list[Array]:
    """Outputs of ``count`` runs, joined along the first dimension, with the images in the first dimension.

    Nothing changes where the first dimension was the batch. Where it was not, as in CRNN's steps x 1 x classes, a new
    dimension stands in front.
    """
    return [array if len(array) == count else array.reshape(count, -1, *array.shape[1:]) for array in outputs]
