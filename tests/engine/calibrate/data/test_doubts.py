"""What is legal about calibration data and hardly meant is said once, with the evidence and what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from PIL import Image

from engine.calibrate.data.doubts import array_doubts, folder_doubts, other_distribution
from engine.calibrate.data.sources import open_folders
from engine.config import InputSpec
from engine.errors import CalibrationDataError
from engine.terms import InputType, NormType
from tests.engine.calibrate.data.test_sources import MAP, model, write

RNG = np.random.default_rng(0)
SCALED = InputSpec(
    name="x", type_train=InputType.RGB, type_rt=InputType.RGB, norm_type=NormType.SCALE, scale=(1 / 255,)
)


def test_doubtful_data_are_named(tmp_path: Path) -> None:
    samples = RNG.normal(size=(20, 3, 4, 6)).astype(np.float32)
    assert list(folder_doubts(open_folders(model(), [MAP], [write(tmp_path / "good", samples)]))) == []
    samples[1], samples[2, 0, 0, 0], samples[3, 0, 0, 0] = 0, np.nan, np.inf
    found = list(folder_doubts(open_folders(model(), [MAP], [write(tmp_path / "doubtful", samples[:10])])))
    assert [text.split("holds ")[-1].split(",")[0] for text in found[1:]] == ["only zeros", "NaN", "infinity"]
    assert found[0].startswith("10 calibration samples are few")
    assert str(tmp_path / "doubtful" / "001.bin") in found[1]


def test_values_beyond_float32_count_as_infinity(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "a.npy", np.full((3, 4, 6), 1e39))
    few, large, *_ = folder_doubts(open_folders(model(), [MAP], [tmp_path / "data"]))
    assert few.startswith("1 calibration sample is few")
    assert "a.npy: holds infinity" in large


def test_values_that_an_integer_input_lacks_are_found_beforehand(tmp_path: Path) -> None:
    network = model((1, 6))
    network.graph.inputs[0].dtype = ir.DataType.INT64
    folder = write(tmp_path / "ids", np.asarray([[0, 1, 2, 3, 4, 5], [0, 1, 0.5, 3, 4, 5]]), ".npy")
    with pytest.raises(CalibrationDataError, match=r"001\.npy: holds values that are not of type int64"):
        list(folder_doubts(open_folders(network, [MAP], [folder])))


def doubts(folder: Path, samples: np.ndarray, spec: InputSpec = SCALED, kind: str = "float32") -> list[str]:
    return list(folder_doubts(open_folders(model(), [spec], [write(folder, samples)], [kind])))


def test_pixels_are_beyond_doubt(tmp_path: Path) -> None:
    pixels = RNG.integers(0, 256, (20, 3, 4, 6))
    assert doubts(tmp_path / "floats", pixels.astype(np.float32)) == []
    assert doubts(tmp_path / "bytes", pixels.astype(np.uint8), kind="uint8") == []


def test_images_that_were_divided_before_are_named(tmp_path: Path) -> None:
    (found,) = doubts(tmp_path / "a", RNG.uniform(0, 1, (20, 3, 4, 6)).astype(np.float32))
    assert "all samples lie between 0" in found
    assert "as pixels divided by 255" in found
    assert "applies norm_type data_scale itself: multiply the samples by 255" in found


def test_images_that_were_normalised_before_are_named(tmp_path: Path) -> None:
    (found,) = doubts(tmp_path / "a", RNG.uniform(-2.1, 2.6, (20, 3, 4, 6)).astype(np.float32))
    assert "as pixels normalised" in found
    (found,) = doubts(tmp_path / "b", RNG.uniform(-128, 127, (20, 3, 4, 6)).astype(np.float32))
    assert "as pixels less a mean" in found


def test_a_feature_map_may_hold_anything(tmp_path: Path) -> None:
    assert doubts(tmp_path / "a", RNG.normal(size=(20, 3, 4, 6)).astype(np.float32), MAP) == []


def test_constant_samples_and_copies_are_counted(tmp_path: Path) -> None:
    samples = RNG.uniform(0, 255, (20, 3, 4, 6)).astype(np.float32)
    samples[3:6] = 7.0
    samples[9] = samples[8]
    constant, copies = doubts(tmp_path / "a", samples)
    assert "3 of 20 samples hold one value throughout" in constant
    assert "003.bin: 7)" in constant
    assert "3 of 20 samples are copies of others" in copies


def test_masks_and_states_beside_another_input_are_beyond_doubt() -> None:
    images = RNG.integers(0, 256, (20, 3, 4, 6), np.uint8)
    arrays = {"x": images, "mask": np.ones((20, 8), np.float32), "state": np.zeros((20, 8), np.float32)}
    assert list(array_doubts(arrays, [SCALED])) == []
    found = list(array_doubts({"only": arrays["mask"]}, []))
    assert [text.split(": ")[1].split(" (")[0] for text in found] == [
        "20 of 20 samples hold one value throughout",
        "19 of 20 samples are copies of others",
    ]


def test_samples_in_memory_are_looked_at_too() -> None:
    samples = np.repeat(RNG.uniform(0, 1, (1, 3, 4, 6)), 4, axis=0).astype(np.float32)
    few, copies, divided = array_doubts({"x": samples}, [SCALED])
    assert few.startswith("4 calibration samples are few")
    assert "3 of 4 samples are copies of others (sample 1 of sample 0)" in copies
    assert "divided by 255" in divided


def test_raw_nv12_where_rgb_is_meant_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "nv12", RNG.integers(0, 256, (2, 36), np.uint8))
    with pytest.raises(CalibrationDataError, match=r"has the 36 bytes of an NV12 image.* \(input_type_train rgb\)"):
        list(folder_doubts(open_folders(model(), [SCALED], [folder], ["uint8"])))


@pytest.mark.parametrize("swapped", [False, True])
def test_channels_in_another_order_than_the_images_beside_are_named(tmp_path: Path, swapped: bool) -> None:
    pixels = RNG.integers(0, 256, (20, 3, 4, 6), np.uint8)
    (tmp_path / "images").mkdir()
    for index, sample in enumerate(pixels):
        Image.fromarray(sample.transpose(1, 2, 0)).save(tmp_path / "images" / f"{index:03}.png")
    found = doubts(tmp_path / "raw", pixels[:, ::-1].copy() if swapped else pixels, kind="uint8")
    assert [("the channels are in reverse order" in text) for text in found] == ([True] if swapped else [])


def test_other_data_than_those_that_are_evaluated_are_shown() -> None:
    first, second = RNG.uniform(0, 255, (20, 3, 8, 8)), RNG.uniform(0, 60, (20, 3, 8, 8))
    assert other_distribution(first, first[::-1], "x") is None
    found = other_distribution(first, second, "x")
    assert found is not None
    assert "calibration and evaluation data are distributed differently, Kolmogorov-Smirnov 0.7" in found
    assert "█" in found


def test_few_images_may_be_darker_than_many() -> None:
    """Values of one image belong together: four say little of a hundred, unless they are divided by 255."""

    def images(count: int) -> np.ndarray:
        return RNG.uniform(0, 255, (count, 1)) * RNG.uniform(0.8, 1, (count, 64))

    many, draws = images(100), [images(4) for _ in range(50)]
    assert [other_distribution(many, few, "x") for few in draws].count(None) == 50
    assert all(other_distribution(many, few / 255, "x") for few in draws)
    assert other_distribution(many, many[:1] / 255, "x") is None


@pytest.mark.filterwarnings("error")
def test_samples_of_nan_alone_cause_no_warning_of_numpy(tmp_path: Path) -> None:
    pixels = RNG.integers(0, 256, (20, 3, 4, 6)).astype(np.float32)
    pixels[3] = np.nan
    (found,) = doubts(tmp_path / "a", pixels)
    assert found.endswith("003.bin: holds NaN, which the statistics ignore (is cal_data_type right?)")


def test_a_normalisation_that_the_model_has_not_is_not_claimed(tmp_path: Path) -> None:
    plain = SCALED.model_copy(update={"norm_type": NormType.NONE, "scale": None})
    (found,) = doubts(tmp_path / "a", RNG.uniform(0, 1, (20, 3, 4, 6)).astype(np.float32), plain)
    assert "the converted model takes pixels of 0 to 255: multiply the samples by 255" in found
