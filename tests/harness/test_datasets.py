"""Data sets: disjoint splits, the same pixels on every machine and for every batch size, clear errors."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.errors import CalibrationDataError, ConfigError
from harness import paths
from harness.datasets import (
    ADAPTERS,
    Colour,
    Dataset,
    SceneTarget,
    list_dataset_cards,
    load_dataset_card,
    mnist,
    open_dataset,
)
from harness.datasets.mnist import Mnist, MnistOptions, load_mnist
from harness.datasets.scenes import SceneOptions, Scenes
from harness.datasets.stratified import stratified_splits

BUNDLED = ("digits", "mnist", "scenes")


@pytest.fixture(params=BUNDLED)
def dataset(request: pytest.FixtureRequest) -> Dataset:
    return open_dataset(request.param)


def pixels(images: np.ndarray) -> str:
    return hashlib.sha256(images.tobytes()).hexdigest()[:16]


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
        with pytest.raises(CalibrationDataError, match=f"images {start}..{stop} asked for"):
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
    with pytest.raises(CalibrationDataError, match="have changed"):
        open_dataset(card.model_copy(update={"digest": "0" * 64}))
    with pytest.raises(ConfigError, match="its card says"):
        open_dataset(card.model_copy(update={"splits": {"train": 1}}))


def test_options_give_another_digest() -> None:
    assert open_dataset("mnist", {"seed": 1}).digest != open_dataset("mnist").digest
    assert open_dataset("mnist", dict(load_dataset_card("mnist").options)).digest == open_dataset("mnist").digest
    assert open_dataset("scenes", {"digits": {"seed": 1}}).digest != open_dataset("scenes").digest


class TestMnist:
    def test_splits_share_no_image(self) -> None:
        images, classes = load_mnist()
        per_class = {"train": 350, "calibration": 30, "evaluation": 120}
        indices = stratified_splits(classes, per_class, MnistOptions().seed)
        assert sorted(np.concatenate(list(indices.values()))) == list(range(5000))
        dataset = Mnist(MnistOptions())
        for name, chosen in indices.items():
            np.testing.assert_array_equal(dataset.split(name).images(), images[chosen])

    def test_every_prefix_is_balanced(self) -> None:
        classes = open_dataset("mnist").split("evaluation").targets(0, 50)
        assert np.bincount(np.asarray(classes)).tolist() == [5] * 10

    def test_split_needs_more_than_there_is(self) -> None:
        with pytest.raises(ConfigError, match="a class has 500"):
            open_dataset("mnist", {"train": 400})

    def test_arrays_cannot_be_written_to(self) -> None:
        with pytest.raises(ValueError, match="read-only"):
            load_mnist()[0][0] = 0


class TestDigits:
    def test_enlarging(self) -> None:
        from sklearn.datasets import load_digits

        levels = load_digits().images
        image = open_dataset("digits").split("train").images(0, 1)[0, :, :, 0]
        assert not image[[0, 1, 26, 27]].any()
        assert not image[:, [0, 1, 26, 27]].any()
        inner = image[2:26, 2:26].reshape(8, 3, 8, 3)
        assert (inner == inner[:, :1, :, :1]).all()
        small = inner[:, 0, :, 0]
        assert (np.rint(levels * 255 / 16) == small).all(axis=(1, 2)).sum() == 1

    @pytest.mark.parametrize("size", [8, 15, 16, 33])
    def test_other_sizes(self, size: int) -> None:
        assert open_dataset("digits", {"size": size}).split("train").images(0, 2).shape == (2, size, size, 1)


class TestScenes:
    def test_the_same_pixels_everywhere(self) -> None:
        """If this fails on another machine or numpy, scores of scene models are no longer comparable."""
        found = {name: pixels(split.images(0, 8)) for name, split in open_dataset("scenes").splits.items()}
        assert found == {
            "train": "eb3986ab34dfc33b",
            "calibration": "b481a83b3dbac805",
            "evaluation": "93c74f1f87f1a283",
        }

    def test_an_image_does_not_depend_on_how_many_there_are(self) -> None:
        many, few = open_dataset("scenes"), open_dataset("scenes", {"evaluation": 5})
        np.testing.assert_array_equal(many.split("evaluation").images(0, 5), few.split("evaluation").images())

    def test_targets_describe_the_image(self) -> None:
        split = open_dataset("scenes").split("train")
        for image, target in zip(split.images(0, 60), split.targets(0, 60), strict=True):
            assert isinstance(target, SceneTarget)
            assert 1 <= len(target.boxes) == len(target.classes) <= 4
            assert (target.boxes[:, :2] >= 0).all()
            assert (target.boxes[:, 2:] <= 96).all()
            sides = (target.boxes[:, 2:] - target.boxes[:, :2]).max(axis=1)
            assert (sides >= 22).all()
            assert (sides <= 46).all()
            in_boxes = np.zeros((96, 96), bool)
            for left, top, right, bottom in target.boxes.astype(int):
                in_boxes[top:bottom, left:right] = True
            assert not target.mask[~in_boxes].any()
            assert set(np.unique(target.mask)) - {0} <= set(target.classes + 1)
            assert image.std() > 0

    @pytest.mark.parametrize("name", ["train", "calibration", "evaluation"])
    def test_splits_use_digits_of_their_own(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without the MNIST images of the other splits, the scenes of a split are the same."""
        expected = open_dataset("scenes").split(name).images(0, 40)
        images, classes = load_mnist()
        per_class = {"train": 350, "calibration": 30, "evaluation": 120}
        own = stratified_splits(classes, per_class, MnistOptions().seed)[name]
        blanked = np.zeros_like(images)
        blanked[own] = images[own]
        monkeypatch.setattr(mnist, "load_mnist", lambda: (blanked, classes))
        scenes = Scenes(SceneOptions())
        np.testing.assert_array_equal(scenes.split(name).images(0, 40), expected)

    def test_sizes_are_checked(self) -> None:
        with pytest.raises(ConfigError, match="smallest 50 <= largest 46"):
            open_dataset("scenes", {"smallest": 50})


class TestLabelledFolder:
    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Two splits of two images each, where external data are looked up."""
        for split, shade in (("calib", 10), ("val", 100)):
            (tmp_path / "sample" / split).mkdir(parents=True)
            for index in range(2):
                pixels = np.full((12, 9 + index, 3), shade + index, np.uint8)
                pixels[:, -1] = 255
                Image.fromarray(pixels).save(tmp_path / "sample" / split / f"{index}.png")
            (tmp_path / "sample" / split / "labels.csv").write_text("file,label,name\n0.png,3,a\n1.png,1,b\n")
        monkeypatch.setenv("PTQLAB_DATA", str(tmp_path))
        return tmp_path / "sample"

    def open(self, **options: object) -> Dataset:
        defaults = {"folder": "sample", "folders": {"calibration": "calib", "evaluation": "val"}, "crop": 8}
        adapter = ADAPTERS["labelled_folder"]
        return adapter(adapter.Options.model_validate({**defaults, "classes": 4, **options}))

    @pytest.mark.usefixtures("folder")
    def test_centre_crop_and_labels(self) -> None:
        dataset = self.open()
        assert dataset.image_format.colour is Colour.RGB
        split = dataset.split("evaluation")
        assert split.images().shape == (2, 8, 8, 3)
        assert (split.images(0, 1) == 100).sum() == 7 * 8 * 3 + 8 * 3  # 9 columns: starts at 0, the white edge is out
        assert np.asarray(split.targets()).tolist() == [3, 1]

    def test_digest_follows_the_files_and_not_the_place(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = self.open().digest
        moved = tmp_path / "elsewhere"
        moved.mkdir()
        folder.rename(moved / "sample")
        monkeypatch.setenv("PTQLAB_DATA", str(moved))
        assert self.open().digest == before
        Image.new("RGB", (9, 12)).save(moved / "sample" / "val" / "0.png")
        assert self.open().digest != before

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            ("file,label\n../calib/0.png,1\n", "'../calib/0.png' is no file in"),
            ("file,label\nabsent.png,1\n", "'absent.png' is no file in"),
            ("file,label\n0.png,4\n", r"label '4', expected an integer 0\.\.3"),
            ("file,label\n0.png,-1\n", "label '-1'"),
            ("file,label\n0.png\n", "label ''"),
            ("name,label\n0.png,1\n", "expected file and label"),
        ],
    )
    def test_bad_tables(self, folder: Path, table: str, message: str) -> None:
        (folder / "val" / "labels.csv").write_text(table)
        with pytest.raises(CalibrationDataError, match=message) as raised:
            self.open()
        assert "labels.csv" in str(raised.value)

    def test_bad_images(self, folder: Path) -> None:
        with pytest.raises(CalibrationDataError, match="9 x 12 pixels, expected at least 10"):
            self.open(crop=10).split("evaluation").images(0, 1)
        (folder / "val" / "0.png").write_bytes(b"no image")
        with pytest.raises(CalibrationDataError, match="cannot be read as an image"):
            self.open().split("evaluation").images(0, 1)

    def test_absent_table(self, folder: Path) -> None:
        (folder / "val" / "labels.csv").unlink()
        with pytest.raises(CalibrationDataError, match=r"labels\.csv: cannot be read"):
            self.open()

    def test_absent_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PTQLAB_DATA", str(tmp_path / "nowhere"))
        with pytest.raises(CalibrationDataError, match="PTQLAB_DATA"):
            open_dataset("imagenet_sample")


def test_imagenet_sample() -> None:
    if not (Path(os.environ.get("PTQLAB_DATA", "")) / "imagenet_sample").is_dir():
        pytest.skip("no imagenet_sample: set PTQLAB_DATA")
    dataset = open_dataset("imagenet_sample")
    assert dataset.split("evaluation").images(398).shape == (2, 224, 224, 3)
    assert len(np.unique(np.asarray(dataset.split("evaluation").targets()))) == 400
