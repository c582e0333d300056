"""Steps between an image file and what a model takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.errors import CalibrationDataError, ConfigError
from harness.datasets.transformers import apply, parse_chain, read_image, resize, to_uint8
from harness.terms import ReadMode
from tests.engine.test_untrusted import bomb
from tests.harness.datasets.helpers import picture

MODES = list(ReadMode)


@pytest.fixture(autouse=True)
def _packages() -> None:
    pytest.importorskip("cv2", reason="the extra images is not installed")
    pytest.importorskip("skimage", reason="the extra images is not installed")


@pytest.mark.parametrize("mode", MODES)
def test_the_guides_chain_gives_bgr_channels_first(tmp_path: Path, mode: ReadMode) -> None:
    image = picture(tmp_path / "a.png", 40, 60)
    steps = [
        {"ShortSideResizeTransformer": {"short_size": 40}},
        {"CenterCropTransformer": {"crop_size": 32}},
        "HWC2CHW",
    ]
    if mode is ReadMode.SKIMAGE:
        steps += ["RGB2BGRTransformer", {"ScaleTransformer": {"scale_value": 255}}]
    found = to_uint8(apply(parse_chain(steps), read_image(tmp_path / "a.png", mode), mode))
    expected = image[4:36, 14:46, ::-1].transpose(2, 0, 1)
    np.testing.assert_array_equal(found, expected)


def test_both_modes_resize_alike_but_for_rounding(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 41, 60)
    chain = parse_chain([{"Resize": {"target_size": [30, 50]}}])
    opencv = apply(chain, read_image(tmp_path / "a.png", ReadMode.OPENCV), ReadMode.OPENCV)
    skimage = apply(chain, read_image(tmp_path / "a.png", ReadMode.SKIMAGE), ReadMode.SKIMAGE)
    np.testing.assert_allclose(skimage[..., ::-1] * 255, opencv, atol=1)


def test_pad_resize_keeps_proportions(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 20, 40)
    chain = parse_chain([{"PadResize": {"target_size": [40, 40], "pad_value": 7}}])
    found = apply(chain, read_image(tmp_path / "a.png", ReadMode.OPENCV), ReadMode.OPENCV)
    assert (found[:10] == 7).all()
    assert (found[30:] == 7).all()
    assert not (found[10:30] == 7).all(axis=2).any()


def test_mean_follows_the_layout() -> None:
    image = np.ones((4, 5, 3), np.float32)
    last = apply(parse_chain([{"Mean": {"means": [1, 2, 3], "data_format": "HWC"}}]), image, ReadMode.OPENCV)
    first = apply(parse_chain(["HWC2CHW", {"Mean": {"means": [1, 2, 3]}}, "CHW2HWC"]), image, ReadMode.OPENCV)
    np.testing.assert_array_equal(last, first)
    np.testing.assert_array_equal(last[0, 0], [0, -1, -2])


@pytest.mark.parametrize(
    ("steps", "message"),
    [(["HWC2CWH"], "did you mean 'HWC2CHW'"), ([{"Resize": {"size": 3}}], r"transformers\.0\.Resize.*'target_size'")],
)
def test_a_wrong_step_is_named(steps: list[Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_chain(steps)


def chained(steps: list[Any], image: np.ndarray) -> np.ndarray:
    return apply(parse_chain(steps), image, ReadMode.OPENCV)


@pytest.mark.parametrize(
    ("shape", "short", "expected"),
    [((10, 25), 5, (5, 13)), ((25, 10), 5, (13, 5)), ((4, 4), 6, (6, 6)), ((8, 18), 5, (5, 11)), ((9, 20), 7, (7, 16))],
    ids=["half-up", "upright", "grow", "down", "up"],
)
def test_the_shorter_side_is_given_the_other_rounded_half_up(
    shape: tuple[int, int], short: int, expected: tuple[int, int]
) -> None:
    assert (
        chained([{"ShortSideResize": {"short_size": short}}], np.zeros((*shape, 3), np.float32)).shape[:2] == expected
    )


def test_an_odd_pad_is_wider_right_and_below() -> None:
    found = chained([{"Pad": {"target_size": [4, 5]}}], np.zeros((1, 2, 3), np.float32))[..., 0]
    rows, columns = np.nonzero(found == 0)
    assert (set(rows), set(columns)) == ({1}, {1, 2})
    assert found[0, 0] == 127
    with pytest.raises(CalibrationDataError, match=r"Pad: image of \(1, 6\) is larger than \(4, 5\)"):
        chained([{"Pad": {"target_size": [4, 5]}}], np.zeros((1, 6, 3), np.float32))


def test_pad_resize_rounds_half_up_and_keeps_a_pixel() -> None:
    found = chained([{"PadResize": {"target_size": [5, 8], "pad_value": 9}}], np.zeros((5, 16, 3), np.float32))[..., 0]
    assert (found == 0).sum() == 3 * 8  # 5 / 2 is 2.5
    thin = chained([{"PadResize": {"target_size": [8, 8], "pad_value": 9}}], np.zeros((1, 100, 3), np.float32))[..., 0]
    assert (thin == 0).sum() == 8


def test_an_odd_crop_leaves_more_right_and_below() -> None:
    image = np.arange(5 * 6, dtype=np.float32).reshape(5, 6, 1).repeat(3, axis=2)
    assert chained([{"CenterCrop": {"crop_size": 2}}], image)[..., 0].tolist() == [[8, 9], [14, 15]]
    assert chained([{"CenterCrop": {"crop_size": 5}}], image).shape == (5, 5, 3)
    with pytest.raises(CalibrationDataError, match=r"CenterCrop: image of \(5, 6\) is smaller than 6"):
        chained([{"CenterCrop": {"crop_size": 6}}], image)


@pytest.mark.parametrize("name", ["RGB2BGR", "BGR2RGB", "RGB2BGRTransformer"])
def test_channels_change_places_where_they_are(name: str) -> None:
    image = np.arange(3 * 3 * 3, dtype=np.float32).reshape(3, 3, 3)
    np.testing.assert_array_equal(chained([name], image), image[::-1])
    np.testing.assert_array_equal(chained([{name: {"data_format": "HWC"}}], image), image[:, :, ::-1])


def test_values_are_rounded_and_limited() -> None:
    values = np.array([-3, -0.5, 0.5, 1.5, 2.9999998, 254.5, 255.4, 300], np.float32)
    assert to_uint8(values).tolist() == [0, 0, 0, 2, 3, 254, 255, 255]
    assert chained([{"Scale": {"scale_value": 0.5}}], values)[-1] == 150


@pytest.mark.parametrize("mode", MODES)
def test_enlarging_is_bilinear_at_half_pixel_centres(mode: ReadMode) -> None:
    """Without smoothing; at the border, which is left out here, scikit-image mirrors and OpenCV repeats."""
    image = np.array([[0.0, 8.0, 8.0, 0.0]], np.float32)[..., np.newaxis].repeat(3, axis=2)
    np.testing.assert_allclose(resize(image, (1, 8), mode)[0, 1:-1, 0], [2, 6, 8, 8, 6, 2], atol=1e-5)
    np.testing.assert_allclose(resize(image, (1, 2), mode)[0, :, 0], [4, 4], atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_gray_images_get_three_equal_channels_and_opacity_is_left_out(tmp_path: Path, mode: ReadMode) -> None:
    full = 255 if mode is ReadMode.OPENCV else 1
    for kind, colour, expected in (("L", 51, [0.2] * 3), ("LA", (51, 0), [0.2] * 3), ("RGBA", (255, 51, 0, 9), None)):
        Image.new(kind, (6, 5), colour).save(tmp_path / "a.png")
        rgb = [1, 0.2, 0] if mode is ReadMode.SKIMAGE else [0, 0.2, 1]
        found = read_image(tmp_path / "a.png", mode)
        assert found.shape == (5, 6, 3)
        np.testing.assert_allclose(found[2, 3] / full, expected or rgb, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("content", [b"", b"xx", bomb()], ids=["empty", "short", "bomb"])
def test_files_that_are_no_images(tmp_path: Path, mode: ReadMode, content: bytes) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(CalibrationDataError, match=r"a\.png: cannot be read as an image"):
        read_image(tmp_path / "a.png", mode)
    with pytest.raises(CalibrationDataError, match=r"b\.png: cannot be read: No such file"):
        read_image(tmp_path / "b.png", mode)


def test_a_film_is_no_image(tmp_path: Path) -> None:
    frames = [Image.new("L", (5, 4), shade) for shade in (0, 255)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(CalibrationDataError, match=r"holds an array of \(2, 4, 5, 3\), expected one image"):
        read_image(tmp_path / "a.gif", ReadMode.SKIMAGE)


@pytest.mark.parametrize(
    "step",
    [
        {"Resize": {"target_size": [0, 3]}},
        {"ShortSideResize": {"short_size": 0}},
        {"Scale": {"scale_value": float("nan")}},
        {"Mean": {"means": [1, 2, float("inf")]}},
        {"Mean": {"means": [1, 2, 3], "data_format": "NHWC"}},
        {"Scale": {"scale_value": 1}, "HWC2CHW": None},
        3,
    ],
)
def test_steps_with_values_out_of_range(step: Any) -> None:
    with pytest.raises(ConfigError):
        parse_chain([step])
