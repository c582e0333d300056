"""Causes on the page, with thumbnails of the images that flipped."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from harness.gates.explanation import Explanation, TrialCauses
from harness.gates.flips import Flip, Flips
from harness.report.causes import causes_of
from harness.report.results import Sweep
from harness.zoo.cards import load_card
from tests.harness import fakes, finished


def sweep(model: str, *images: int) -> Sweep:
    spec = fakes.spec(model)
    flips = Flips(
        worse=len(images), better=0, images=tuple(Flip(image=i, score_before=1.0, score_now=0.0) for i in images)
    )
    trials = (TrialCauses(trial=spec.id, headline="why", flips=flips),)
    return finished.sweep([fakes.result(spec)], explanation=Explanation(trials=trials))


def test_a_flip_is_shown_as_the_image_that_it_is() -> None:
    ((row),) = causes_of(sweep("mnist_lenet", 3))
    ((flip, picture),) = row["flips"]
    assert flip.image == 3
    shown = Image.open(io.BytesIO(base64.b64decode(picture.removeprefix("data:image/png;base64,"))))
    images = load_card("mnist_lenet").open_dataset().split("evaluation").images(3, 4)
    assert np.array_equal(np.asarray(shown), images[0, ..., 0])


def test_without_the_data_there_are_words_alone() -> None:
    for found in (sweep("net", 3), sweep("mnist_lenet", 10**6)):
        ((row),) = causes_of(found)
        assert [picture for _, picture in row["flips"]] == [""]


def test_a_sweep_without_baseline_has_no_causes() -> None:
    found = sweep("net")
    plain = found.summary.model_copy(update={"explanation": None})
    assert causes_of(Sweep(plain, found.results)) == []
