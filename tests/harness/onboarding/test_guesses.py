"""Normalisations, and what a file says of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.config import InputParameters
from engine.terms import InputType, Layout
from harness.onboarding.exporters import Exporter, Family
from harness.onboarding.guesses import conventional, normalisations
from harness.onboarding.network_file import NetworkFile
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
        (replace(NETWORK, exporter=Exporter.ULTRALYTICS), "0..1", True),
        (replace(NETWORK, subtracted=115.0, begins_with=("Sub",)), "0..255", True),
        (replace(NETWORK, subtracted=0.45, begins_with=("BatchNormalization",)), "0..1", True),
        (replace(NETWORK, scaled=1 / 127.5, begins_with=("Mul", "Add")), "0..255", True),
        (replace(NETWORK, scaled=4.4, subtracted=0.45, begins_with=("Sub", "Div")), "0..1", True),
    ],
)
def test_what_the_file_speaks_for(target: NetworkFile, name: str, is_sure: bool) -> None:
    found = conventional(target)
    assert (found.guesses[0].name, found.is_certain) == (name, is_sure)
    assert found.reason
    assert set(found.guesses) <= set(normalisations(target.channels))


@pytest.mark.parametrize(
    ("exporter", "family", "first", "others"),
    [
        (Exporter.PYTORCH, Family.UNKNOWN, "rgb ImageNet mean and deviation", {"rgb 0..1", "rgb -1..1"}),
        (Exporter.TENSORFLOW, Family.UNKNOWN, "rgb -1..1", {"bgr Caffe mean"}),
        (Exporter.TENSORFLOW, Family.VGG, "bgr Caffe mean", set()),
        (Exporter.TENSORFLOW, Family.MOBILENET, "rgb -1..1", set()),
        (Exporter.CAFFE, Family.UNKNOWN, "bgr Caffe mean", {"bgr 0..255"}),
        (Exporter.PADDLE, Family.UNKNOWN, "rgb ImageNet mean and deviation", {"bgr -1..1"}),
    ],
)
def test_what_frameworks_and_architectures_take(
    exporter: Exporter, family: Family, first: str, others: set[str]
) -> None:
    found = conventional(replace(NETWORK, exporter=exporter, family=family, layout=Layout.NHWC))
    assert str(found.guesses[0]) == first
    assert others <= set(map(str, found.guesses))
    assert not found.is_certain
    assert "bgr 0..255" not in set(map(str, found.guesses)) or exporter is Exporter.CAFFE
