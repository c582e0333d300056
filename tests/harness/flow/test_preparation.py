"""Images as inputs of a float model, and the guides' own code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import skimage
import skimage.io
from numpy.typing import NDArray
from PIL import Image

from engine.config import InputSpec
from engine.errors import CalibrationDataError, ConfigError
from engine.terms import InputType, Layout
from harness.datasets.transformers import (
    CenterCropTransformer,
    HWC2CHWTransformer,
    RGB2BGRTransformer,
    ScaleTransformer,
    ShortSideResizeTransformer,
    Transformer,
    to_uint8,
)
from harness.flow.preparation import ImageInput, Preparation, chosen, image_files, read_chain
from harness.terms import Fit, ReadMode


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A picture of 40 x 60 pixels, without losses."""
    pixels = np.random.default_rng(0).integers(0, 256, (10, 15, 3), np.uint8)
    Image.fromarray(pixels).resize((60, 40)).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def target(kind: str, layout: str, height: int = 28, width: int = 28) -> ImageInput:
    channels = 1 if kind == "gray" else 3
    shape = (1, channels, height, width) if layout == "NCHW" else (1, height, width, channels)
    spec = InputSpec(name="data", type_train=InputType(kind), layout_train=Layout(layout), type_rt=InputType(kind))
    return ImageInput(spec, 0, shape)


def data_transformer() -> list[Transformer]:
    """As the guide prints it."""
    transformers = [
        # Proportional scale; short side scaled to 256
        ShortSideResizeTransformer(short_size=256),
        # CenterCrop to obtain 224x224 image
        CenterCropTransformer(crop_size=224),
        # skimage reads in NHWC layout; convert to NCHW required by the model
        HWC2CHWTransformer(),
        # skimage reads RGB channel order; convert to BGR required by the model
        RGB2BGRTransformer(),
        # skimage reads values in [0.0,1.0]; adjust to the value range required by the model
        ScaleTransformer(scale_value=255),
    ]
    return transformers


def convert_image(src_image: Path, dst_file: Path, transformers: list[Transformer]) -> None:
    """As the guide prints it."""
    image = skimage.img_as_float(skimage.io.imread(src_image))
    for trans in transformers:
        image = trans(image)
    # input_type_train BGR numeric type specified by the model is UINT8
    image = image.astype(np.uint8)
    # Store calibration sample as binary to data file
    image.tofile(dst_file)


def test_the_guides_code_runs_as_printed_and_gives_what_prepare_gives(picture: Path, tmp_path: Path) -> None:
    convert_image(picture, tmp_path / "a.bgr", data_transformer())
    written = np.fromfile(tmp_path / "a.bgr", np.uint8).reshape(3, 224, 224)
    found = Preparation(target("bgr", "NCHW", 224, 224), ReadMode.SKIMAGE)(picture)
    cut = found - written  # astype(uint8) cuts off what is behind the point
    assert cut.min() > -1e-3
    assert cut.max() < 1 + 1e-3


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("kind", ["rgb", "bgr", "yuv444", "gray"])
def test_colours_and_layout_of_the_input(picture: Path, kind: str, layout: str) -> None:
    found = Preparation(target(kind, layout), fit=Fit.STRETCH)(picture)
    assert found.dtype == np.float32
    assert found.shape == target(kind, layout).shape[1:]
    rgb: NDArray[np.float32] = Preparation(target("rgb", "NHWC"), fit=Fit.STRETCH)(picture)
    last = found if layout == "NHWC" else np.moveaxis(found, 0, 2)
    if kind in ("rgb", "bgr"):
        np.testing.assert_array_equal(last, rgb if kind == "rgb" else rgb[..., ::-1])
    else:
        luma = rgb @ np.array([0.299, 0.587, 0.114])
        assert np.abs(last[..., 0] - luma).max() <= 1.0


def test_readers_agree_where_nothing_is_resized(picture: Path) -> None:
    found = [Preparation(target("rgb", "NHWC", 40, 60), mode, Fit.STRETCH)(picture) for mode in ReadMode]
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)


def test_fits(picture: Path) -> None:
    padded = Preparation(target("rgb", "NHWC", 30, 30), fit=Fit.PAD)(picture)
    assert (padded[:5] == 127).all()
    assert not (padded[5:25] == 127).all()
    with pytest.raises(ConfigError, match="fit crop needs a square input, not 28 x 30"):
        Preparation(target("rgb", "NHWC", 28, 30))(picture)


def test_a_chain_of_ones_own_must_end_in_the_shape_of_the_input(picture: Path, tmp_path: Path) -> None:
    steps = tmp_path / "steps.yaml"
    steps.write_text("[{ShortSideResizeTransformer: {short_size: 32}}, {CenterCrop: {crop_size: 28}}, HWC2CHW]")
    chain = read_chain(steps)
    found = Preparation(target("bgr", "NCHW"), chain=chain)(picture)
    np.testing.assert_array_equal(found, Preparation(target("bgr", "NCHW"))(picture))
    with pytest.raises(CalibrationDataError, match=r"end in shape \[3, 28, 28\], input data takes \[28, 28, 3\]"):
        Preparation(target("bgr", "NHWC"), chain=chain)(picture)
    steps.write_text("a: b")
    with pytest.raises(ConfigError, match="must hold a list of transformers"):
        read_chain(steps)
    assert read_chain(None) == ()


@pytest.mark.parametrize(("mode", "steps"), [("opencv", ", Scale: {scale_value: 255}"), ("skimage", "")])
def test_a_chain_for_the_other_reader_is_refused(picture: Path, tmp_path: Path, mode: str, steps: str) -> None:
    file = tmp_path / "steps.yaml"
    listed = ["Resize: {target_size: [28, 28]}", *([steps.removeprefix(", ")] if steps else [])]
    file.write_text("".join(f"- {step}\n" for step in listed))
    with pytest.raises(CalibrationDataError, match=r"samples are in 0\.\.255; --read-mode opencv reads BGR"):
        Preparation(target("bgr", "NHWC"), ReadMode(mode), chain=read_chain(file))(picture)


def test_draws_are_without_replacement_in_order_and_repeat(tmp_path: Path) -> None:
    first = chosen(range(100), 10, 3)
    assert first == sorted(set(first)) == chosen(range(100), 10, 3)
    assert chosen("abc", None, 0) == ["a", "b", "c"]
    with pytest.raises(CalibrationDataError, match="4 images requested, but there are 3"):
        chosen("abc", 4, 0)
    with pytest.raises(CalibrationDataError, match="holds no images"):
        image_files(tmp_path)


def test_rounding_is_to_nearest() -> None:
    np.testing.assert_array_equal(to_uint8(np.array([-1.0, 2.9999998, 254.5, 300.0], np.float32)), [0, 3, 254, 255])
