"""The float model of a card in ONNX Runtime: what every quantised score is compared with."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.backends.outputs import images_first
from harness.datasets import one_by_one
from harness.metrics import Score
from harness.zoo.cards import ModelCard, evaluation_images
from harness.zoo.float_session import float_session

_IMAGES_AT_ONCE = 16


def float_outputs(card: ModelCard, count: int | None = None, threads: int = 1) -> list[NDArray[Any]]:
    """Outputs for the first ``count`` evaluation images (default: all of the card's).

    Args:
        card: of the model.
        count: images.
        threads: images at a time; each is computed by one thread, so that sums are taken in one order.

    Returns:
        One array per model output, images in the first dimension.

    Raises:
        PtqlabError: card, model file or data are wrong; see :class:`~harness.zoo.cards.ModelCard`.
    """
    session = float_session(card.model_path(), threads=1)
    split, total = evaluation_images(card, count)
    collected: list[list[NDArray[Any]]] = []
    running: list[Future[list[NDArray[Any]]]] = []
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, total, _IMAGES_AT_ONCE):  # images are read while those before are computed
            feeds = one_by_one(card.float_inputs(split.take(start, min(start + _IMAGES_AT_ONCE, total))))
            submitted = [pool.submit(session.run, None, feed) for feed in feeds]
            collected += [results.result() for results in running]
            running = submitted
        collected += [results.result() for results in running]
    return images_first([np.concatenate(column) for column in zip(*collected, strict=True)], total)


def float_score(card: ModelCard, count: int | None = None) -> Score:
    """The card's metric on :func:`float_outputs`."""
    outputs = float_outputs(card, count)
    split, total = evaluation_images(card, count)
    return card.open_metric().score(outputs, card.targets(split, total, outputs))
