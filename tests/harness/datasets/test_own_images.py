"""Images of one folder, cut into splits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.errors import CalibrationDataError
from harness.datasets import Colour, SceneTarget
from harness.datasets.annotations import Annotated
from harness.datasets.own_images import OwnImages, OwnImagesOptions, drawn_order, fitted
from harness.datasets.transformers import read_image
from harness.terms import Fit, ReadMode
from tests.harness.datasets.test_annotations import picture
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
    assert OwnImages(options(folder.rename(tmp_path / "other"))).digest == before.digest
    (tmp_path / "other").rename(folder)
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
    image = read_image(path, mode)
    found = fitted(image, options(tmp_path, fit=fit, read_mode=mode))
    assert found.shape == (8, 8, 3)
    assert np.abs(found[2:6, 2:6].mean(axis=(0, 1)) - COLOURS["0"]).max() < 25
    gray = fitted(image, options(tmp_path, fit=fit, read_mode=mode, colour=Colour.GRAY))
    assert gray.shape == (8, 8, 1)
    luma = np.dot(COLOURS["0"], (0.299, 0.587, 0.114))
    assert abs(gray[2:6, 2:6].mean() - luma) < 25


def test_classes_take_turns_as_long_as_they_last() -> None:
    images = [Annotated(Path(), label) for label in (0, 0, 0, 0, 1, 1, 2)]
    order = [images[index].label for index in drawn_order(images, 0)]
    assert order == [0, 1, 2, 0, 1, 0, 0]
    assert sorted(drawn_order(images, 5)) == list(range(7))


def test_masks_are_fitted_with_their_images_and_padding_is_not_counted(tmp_path: Path) -> None:
    """Every pixel of the fitted mask is the class of the nearest one of the file; what is outside is 255."""
    values = np.zeros((20, 40), np.uint8)
    values[:, 20:] = 3
    values[0, 0] = 255
    for index in range(2):
        path = picture(tmp_path / f"images/{index}.png")
        Image.fromarray(np.zeros((20, 40, 3), np.uint8)).save(path)
        (tmp_path / "masks").mkdir(exist_ok=True)
        Image.fromarray(values).save(tmp_path / f"masks/{index}.png")

    def mask(**given: Any) -> np.ndarray:
        fields = {"format": "masks", "labels": tmp_path / "masks", "height": 40, "width": 40, "calibration": 1}
        opened = OwnImages(options(tmp_path / "images", **{**fields, "evaluation": 1, **given}))
        (target,) = opened.split("evaluation").targets()
        assert isinstance(target, SceneTarget)
        return target.mask

    padded = mask(fit=Fit.PAD)
    assert (padded[:10] == 255).all()
    assert (padded[30:] == 255).all()
    assert (padded[11:30, :20] == 0).all()
    assert (padded[11:30, 20:] == 3).all()
    stretched = mask(fit=Fit.STRETCH)
    assert stretched[0, 0] == 255
    assert (stretched[2:, :20] == 0).all()
    moved = mask(fit=Fit.STRETCH, first_class=-1)
    assert (moved[:, :20] == 255).all()
    assert (moved[:, 20:] == 2).all()


def test_texts_are_targets_and_part_of_the_digest(tmp_path: Path) -> None:
    for name in "ab":
        picture(tmp_path / f"{name}.png")
    file = tmp_path / "gt.txt"
    file.write_text("a.png\tone\nb.png\ttwo\n")
    fields = {"format": "text", "labels": file, "fit": "line", "height": 8, "width": 32}
    first = OwnImages(options(tmp_path, **fields, calibration=1, evaluation=1))
    texts = [*first.split("calibration").targets(), *first.split("evaluation").targets()]
    assert sorted(str(text) for text in texts) == ["one", "two"]
    file.write_text("a.png\tone\nb.png\tthree\n")
    assert OwnImages(options(tmp_path, **fields, calibration=1, evaluation=1)).digest != first.digest


def test_labels_may_be_moved_and_renamed(tmp_path: Path) -> None:
    images = colour_images(tmp_path / "images", each=5)
    rows = [f"{path.relative_to(images)},{path.parent.name},{path.stem}\n" for path in sorted(images.rglob("*.png"))]
    digests, targets = set(), []
    for table in (tmp_path / "a.csv", tmp_path / "b.csv"):
        table.write_text("file,number,place\n" + "".join(rows))
        dataset = OwnImages(options(images, format="csv", labels=table, label_column="number"))
        digests.add(dataset.digest)
        targets.append(np.asarray(dataset.split("evaluation").targets()).tolist())
    assert len(digests) == 1
    assert targets[0] == targets[1]
    other = OwnImages(options(images, format="csv", labels=tmp_path / "a.csv", label_column="place"))
    assert other.digest not in digests


def test_images_are_read_once_as_long_as_they_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(path: Path, mode: ReadMode) -> np.ndarray:
        read.append(path.name)
        return read_image(path, mode)

    monkeypatch.setattr("harness.datasets.own_images.read_image", counted)
    monkeypatch.setattr("harness.datasets.base.KEPT_BYTES", 2 * 8 * 8 * 3)
    split = OwnImages(options(colour_images(tmp_path / "images", each=5))).split("evaluation")
    first = split.images(0, 3)
    assert len(read) == 3
    np.testing.assert_array_equal(split.images(0, 3), first)
    assert len(read) == 4
