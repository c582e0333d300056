"""Data sets: disjoint splits, the same pixels on every machine and for every batch size, clear errors."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from engine.errors import CalibrationDataError, ConfigError
from harness.datasets import Dataset, SceneTarget
from harness.datasets.registry import ADAPTERS, list_dataset_cards, load_dataset_card, open_dataset
from harness.files import paths

BUNDLED = ("digits", "mnist", "scenes")


@pytest.fixture(params=BUNDLED)
def dataset(request: pytest.FixtureRequest) -> Dataset:
    return open_dataset(request.param)


def test_cards_name_their_file_and_a_known_adapter() -> None:
    cards = list_dataset_cards()
    assert {card.name for card in cards} == set(paths.yaml_files(paths.datasets()))
    assert {card.adapter for card in cards} <= set(ADAPTERS)
    assert [card.name for card in list_dataset_cards("mni*")] == ["mnist"]


def test_what_is_opened_is_what_the_card_says(dataset: Dataset) -> None:
    card = next(card for card in list_dataset_cards() if card.digest == dataset.digest)
    assert {name: len(split) for name, split in dataset.splits.items()} == card.splits
    assert dataset.image_format == card.image
    images = dataset.split("evaluation").images(0, 3)
    assert images.dtype == np.uint8
    assert images.shape == (3, *card.image.shape)


def test_batches_do_not_matter(dataset: Dataset) -> None:
    split = dataset.split("calibration")
    whole, parts = split.images(0, 20), [split.images(start, start + 5) for start in range(0, 20, 5)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    np.testing.assert_array_equal(whole, type(dataset)(options_of(dataset)).split("calibration").images(0, 20))
    targets, singly = split.targets(0, 20), [split.targets(index, index + 1)[0] for index in range(20)]
    for one, other in zip(targets, singly, strict=True):
        if isinstance(one, SceneTarget):
            np.testing.assert_array_equal(one.boxes, other.boxes)
            np.testing.assert_array_equal(one.mask, other.mask)
            assert one.classes.tolist() == other.classes.tolist()
        else:
            assert one == other


def options_of(dataset: Dataset) -> object:
    card = next(card for card in list_dataset_cards() if card.digest == dataset.digest)
    return type(dataset).Options.model_validate(card.options)


def test_ranges_are_checked(dataset: Dataset) -> None:
    split = dataset.split("calibration")
    assert len(split.images(len(split))) == 0
    for start, stop in ((0, len(split) + 1), (-1, 2), (3, 2)):
        with pytest.raises(CalibrationDataError, match=f"images {start}..{stop} requested"):
            split.images(start, stop)


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match="did you mean 'mnist'"):
        open_dataset("mnits")
    with pytest.raises(ConfigError, match="did you mean 'calibration'"):
        open_dataset("mnist").split("calibation")
    with pytest.raises(ConfigError, match="did you mean 'seed'"):
        open_dataset("mnist", {"sead": 1})
    with pytest.raises(ConfigError, match="unknown dataset adapter 'mnst'; did you mean 'mnist'"):
        open_dataset(load_dataset_card("mnist").model_copy(update={"adapter": "mnst"}))


def test_a_card_that_does_not_fit_the_data() -> None:
    card = load_dataset_card("mnist")
    with pytest.raises(CalibrationDataError, match="has changed"):
        open_dataset(card.model_copy(update={"digest": "0" * 64}))
    with pytest.raises(ConfigError, match="its card has splits"):
        open_dataset(card.model_copy(update={"splits": {"train": 1}}))


def test_options_give_another_digest() -> None:
    assert open_dataset("mnist", {"seed": 1}).digest != open_dataset("mnist").digest
    assert open_dataset("mnist", dict(load_dataset_card("mnist").options)).digest == open_dataset("mnist").digest
    assert open_dataset("scenes", {"digits": {"seed": 1}}).digest != open_dataset("scenes").digest


def test_imagenet_sample() -> None:
    if not (Path(os.environ.get("PTQLAB_DATA", "")) / "imagenet_sample").is_dir():
        pytest.skip("no imagenet_sample: set PTQLAB_DATA")
    dataset = open_dataset("imagenet_sample")
    assert dataset.split("evaluation").images(398).shape == (2, 224, 224, 3)
    assert len(np.unique(np.asarray(dataset.split("evaluation").targets()))) == 400
