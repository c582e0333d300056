"""Figures of the integer model over all calibration samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.calibrate import FloatSession
from engine.calibrate.data.sources import ArrayData, as_fed
from engine.config import parse_config
from engine.convert import convert
from engine.evaluate.similarity import Evaluator, as_integers
from engine.simulate import Session, TensorInfo
from harness.zoo.cards import load_card
from tests.card_images import trained
from tests.configurations import of_card

CARD = load_card("mnist_lenet")
SAMPLES = 5


def test_the_integer_table_of_a_conversion_covers_all_samples(tmp_path: Path) -> None:
    folder = tmp_path / "calibration"
    folder.mkdir()
    images = trained(CARD, CARD.open_dataset().split("calibration").images(0, SAMPLES))
    for index, image in enumerate(images):
        np.save(folder / f"{index}.npy", image[None])
    result = convert(parse_config(of_card(CARD, folder, "bayes", working_dir=str(tmp_path))))
    exact, integer = FloatSession(result.models["optimized_float"]), Session(result.files["quantized"])
    (info,), (row,) = integer.inputs, result.integer_outputs
    errors, cosines = [], []
    for image in images:
        fed = as_fed(image[None], CARD.input_specs[0])
        (expected,) = exact.run({info.name: fed}).values()
        (found,) = integer.run({info.name: fed.astype(np.int8).reshape(info.shape)}).values()
        errors.append(np.abs(found.astype(np.float64) - expected))
        cosines.append(np.vdot(found, expected) / np.linalg.norm(found) / np.linalg.norm(expected))
    distance = row.distance
    assert distance.cosine == pytest.approx(np.mean(cosines), abs=1e-6)
    assert distance.l1 == pytest.approx(np.mean(errors), rel=1e-5)
    assert distance.l2 == pytest.approx(np.mean([np.linalg.norm(e) / e.size for e in errors]), rel=1e-5)
    assert distance.chebyshev == pytest.approx(np.max(errors), rel=1e-5)
    data = ArrayData({info.name: images[:, None] if images.ndim == 3 else images}, CARD.input_specs)
    again = Evaluator(result.models["optimized_float"], data).distances(result.models["quantized"])
    assert again[row.name].cosine == pytest.approx(distance.cosine, abs=1e-6)


def test_pixels_are_rounded_half_to_even_and_saturated_channels_last() -> None:
    feed = {"x": np.array([[[[0.5, 1.5]], [[300.0, -300.0]]]], np.float32), "f": np.array([[0.5]], np.float32)}
    inputs = (TensorInfo("x", (1, 1, 2, 2), np.dtype(np.int8)), TensorInfo("f", (1, 1), np.dtype(np.float32)))
    found = as_integers(feed, inputs)
    assert (found["x"].dtype, found["x"].tolist()) == (np.int8, [[[[0, 127], [2, -128]]]])
    assert found["f"] is feed["f"]


def test_scores_are_means_over_outputs_and_the_least_over_samples() -> None:
    evaluator = object.__new__(Evaluator)
    one, other = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    evaluator._expected = [{"a": one, "b": one}, {"a": one, "b": one}]
    found = evaluator._score([{"a": one, "b": one}, {"a": one, "b": other}])
    assert (found.cosine, found.worst_cosine, found.agreement) == (0.75, 0.5, 0.75)
    maps = np.ones((1, 2, 2))
    evaluator._expected = [{"a": maps}]
    assert evaluator._score([{"a": maps}]).agreement is None
