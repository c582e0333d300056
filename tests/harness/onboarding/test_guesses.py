"""Normalisations, and what a file says of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.config import InputParameters
from engine.terms import InputType, Layout
from harness.onboarding.guesses import conventional, normalisations
from tests.harness.onboarding.test_heads import network

NETWORK = replace(network((1, 10)), size=(4, 6))
GRAY = replace(NETWORK, channels=1)


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("channels", [1, 3])
def test_what_is_fed_is_what_the_card_says(layout: Layout, channels: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (2, 4, 6, channels)).astype(np.uint8)
    target = replace(NETWORK, channels=channels, layout=layout)
    for guess in normalisations(channels):
        spec = InputParameters.model_validate(guess.input_parameters(target)).specs(["image"])[0]
        shape = (1, -1, 1, 1) if layout is Layout.NCHW else (1, 1, 1, -1)
        ordered = images[..., ::-1] if spec.type_train is InputType.BGR else images
        values = (np.moveaxis(ordered, 3, 1) if layout is Layout.NCHW else ordered).astype(np.float64)
        values = (values - np.reshape(spec.mean or (0,), shape)) * np.reshape(spec.scale or (1,), shape)
        fed = guess.apply(images, layout)
        np.testing.assert_allclose(fed, values, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(guess.undo(fed, layout), images)


def test_all_are_different() -> None:
    assert len(set(map(str, normalisations(3)))) == len(normalisations(3)) == 12
    assert {guess.colour for guess in normalisations(1)} == {InputType.GRAY}


@pytest.mark.parametrize(
    ("target", "name", "is_sure"),
    [
        (NETWORK, "ImageNet mean and deviation", False),
        (GRAY, "0..1", False),
        (replace(NETWORK, layout=Layout.NHWC), "-1..1", False),
        (replace(NETWORK, metadata={"author": "Ultralytics"}), "0..1", True),
        (replace(NETWORK, subtracted=115.0, begins_with=("Sub",)), "0..255", True),
        (replace(NETWORK, subtracted=0.45, begins_with=("BatchNormalization",)), "0..1", True),
    ],
)
def test_what_the_file_speaks_for(target: object, name: str, is_sure: bool) -> None:
    found, reason, sure = conventional(target)  # type: ignore[arg-type]
    assert (found, sure) == (name, is_sure)
    assert reason
    assert found in {guess.name for guess in normalisations(target.channels)}  # type: ignore[attr-defined]
