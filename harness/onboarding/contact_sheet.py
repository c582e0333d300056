"""A page with what the network sees under each guess: the same images, read as the chosen normalisation would."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.pages import rendered
from harness.datasets import Images
from harness.onboarding.judging import Basis
from harness.onboarding.proposal import Proposal
from harness.report.templates import template

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

_THUMBNAIL = 160
"""Pixels of the longer side."""


@dataclass(frozen=True)
class _Row:
    """A guess on the page."""

    title: str
    score: str
    values: str
    pictures: tuple[str, ...]
    is_chosen: bool


def contact_sheet(proposal: Proposal) -> str:
    """The page, HTML without external files."""
    decision = proposal.decision
    guesses = [found.guess for found in decision.ranking] or [decision.best]
    scores = {found.guess: f"{found.value:.3f} on {found.images} images" for found in decision.ranking}
    layout, small = proposal.network.layout, np.stack([_thumbnail(image) for image in proposal.shown])
    least, most, mean = _extremes(proposal.shown)
    rows = []
    for guess in guesses:
        ends, middle = (guess.apply(values, layout) for values in (np.concatenate([least, most]), mean))
        seen = decision.best.undo(guess.apply(small, layout), layout)
        rows.append(
            _Row(
                title=str(guess),
                score=scores.get(guess, ""),
                values=f"{ends.min():.3g} to {ends.max():.3g}, mean {middle.mean():.3g}",
                pictures=tuple(_as_png(image) for image in seen),
                is_chosen=guess == decision.best,
            )
        )
    measure = {
        Basis.LABELS: f"{proposal.head.metric} with the labels",
        Basis.MIRROR: "agreement of the outputs for images and their mirror images, in nats",
        Basis.CONVENTION: "",
    }
    return rendered(
        template("contact_sheet.html.j2"),
        name=proposal.name,
        best=str(decision.best),
        words=decision.words,
        reason=proposal.reason,
        measure=measure[decision.basis],
        rows=rows,
    )


def _extremes(images: Images) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Least, greatest and mean value of each channel, as images of one pixel: a normalisation of all is theirs."""
    found = (reduced(images, axis=(0, 1, 2)) for reduced in (np.min, np.max, np.mean))
    least, most, mean = (values[np.newaxis, np.newaxis, np.newaxis] for values in found)
    return least, most, mean


def _thumbnail(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """``image``, (height, width, channels), with a longer side of :data:`_THUMBNAIL` at the most."""
    picture = _picture(image)
    picture.thumbnail((_THUMBNAIL, _THUMBNAIL))
    return np.asarray(picture).reshape(picture.height, picture.width, image.shape[2])


def _as_png(image: NDArray[np.uint8]) -> str:
    """A picture as an address that holds its data."""
    stream = io.BytesIO()
    _picture(image).save(stream, "PNG", compress_level=3)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()


def _picture(image: NDArray[np.uint8]) -> Picture:
    from PIL import Image

    return Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
