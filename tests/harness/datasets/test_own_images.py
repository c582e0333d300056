"""Images of one folder, cut into splits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import CalibrationDataError
from harness.datasets import Colour
from harness.datasets.annotations import Annotated
from harness.datasets.own_images import OwnImages, OwnImagesOptions, drawn_order, fitted
from harness.terms import Fit, ReadMode
from tests.harness.onboarding.networks import COLOURS, colour_images


def options(folder: Path, **given: Any) -> OwnImagesOptions:
    return OwnImagesOptions.model_validate(
        {"folder": folder, "format": "class_folders", "height": 8, "width": 8, "calibration": 6, "evaluation": 9}
        | given
    )


def test_splits_are_disjoint_and_balanced(tmp_path: Path) -> None:
    dataset = OwnImages(options(colour_images(tmp_path / "images", each=5)))
    splits = dataset.splits
    assert {name: len(split) for name, split in splits.items()} == {"calibration": 6, "evaluation": 9}
    assert np.bincount(np.asarray(splits["calibration"].targets())).tolist() == [2, 2, 2]
    assert np.bincount(np.asarray(splits["evaluation"].targets())).tolist() == [3, 3, 3]
    seen = np.concatenate([split.images() for split in splits.values()]).reshape(15, -1)
    assert len(np.unique(seen, axis=0)) == 15
    for image, label in zip(splits["evaluation"].images(), np.asarray(splits["evaluation"].targets()), strict=True):
        assert np.abs(image.mean(axis=(0, 1)) - COLOURS[str(label)]).max() < 12  # RGB


def test_the_digest_covers_images_labels_and_seed(tmp_path: Path) -> None:
    folder = colour_images(tmp_path / "images", each=5)
    before = OwnImages(options(folder))
    assert OwnImages(options(folder)).digest == before.digest
    assert OwnImages(options(folder, seed=1)).digest != before.digest
    moved = folder.rename(tmp_path / "elsewhere").rename(tmp_path / "images")
    assert OwnImages(options(moved)).digest == before.digest
    first = next((folder / "0").iterdir())
    first.rename(folder / "1" / "moved.png")
    assert OwnImages(options(folder)).digest != before.digest


def test_the_first_class_may_be_another(tmp_path: Path) -> None:
    dataset = OwnImages(options(colour_images(tmp_path / "images", each=5), first_class=1))
    assert set(np.asarray(dataset.split("evaluation").targets())) == {1, 2, 3}


def test_too_few_images_and_no_folder(tmp_path: Path) -> None:
    folder = colour_images(tmp_path / "images", each=2)
    with pytest.raises(CalibrationDataError, match=r"6 \+ 9 images requested, but it holds 6"):
        OwnImages(options(folder))
    with pytest.raises(CalibrationDataError, match="no folder"):
        OwnImages(options(tmp_path / "gone"))


def test_images_without_labels_have_no_targets(tmp_path: Path) -> None:
    dataset = OwnImages(options(colour_images(tmp_path / "images", each=5), format="none"))
    assert dataset.split("evaluation").images().shape == (9, 8, 8, 3)
    with pytest.raises(CalibrationDataError, match="has no label; score against the float model"):
        dataset.split("evaluation").targets()


@pytest.mark.parametrize("fit", list(Fit))
@pytest.mark.parametrize("mode", list(ReadMode))
def test_every_fit_gives_the_size_and_the_colour(fit: Fit, mode: ReadMode, tmp_path: Path) -> None:
    path = colour_images(tmp_path / "images", each=1) / "0" / "0.png"
    found = fitted(path, options(tmp_path, fit=fit, read_mode=mode))
    assert found.shape == (8, 8, 3)
    assert np.abs(found[2:6, 2:6].mean(axis=(0, 1)) - COLOURS["0"]).max() < 25
    gray = fitted(path, options(tmp_path, fit=fit, read_mode=mode, colour=Colour.GRAY))
    assert gray.shape == (8, 8, 1)
    luma = np.dot(COLOURS["0"], (0.299, 0.587, 0.114))
    assert abs(gray[2:6, 2:6].mean() - luma) < 25


def test_classes_take_turns_as_long_as_they_last() -> None:
    images = [Annotated(Path(), label) for label in (0, 0, 0, 0, 1, 1, 2)]
    order = [images[index].label for index in drawn_order(images, 0)]
    assert order == [0, 1, 2, 0, 1, 0, 0]
    assert sorted(drawn_order(images, 5)) == list(range(7))
