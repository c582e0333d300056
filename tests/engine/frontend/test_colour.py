"""Colour conversions: the goldens' thresholds, inverse pairs, packing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from engine.config import InputSpec
from engine.errors import InferenceError, UnsupportedError
from engine.frontend import colour
from engine.frontend.onnx import load_onnx
from engine.frontend.preprocess import insert
from engine.ir import to_bytes
from engine.ops.foreign.composite import expand_composites
from engine.terms import InputType, Layout, SpaceAndRange
from tests.engine.frontend.images import as_trained, to_model_input

RNG = np.random.default_rng(5)


def images(channels: int = 3, count: int = 2, height: int = 6, width: int = 8) -> NDArray[np.uint8]:
    return RNG.integers(0, 256, (count, height, width, channels), dtype=np.uint8)


@pytest.mark.reference
@pytest.mark.parametrize(
    ("name", "type_rt"), [("p_yuv", "yuv444"), ("p_nv12", "nv12"), ("p_rgb2bgr", "bgr"), ("p_rgb", "rgb")]
)
def test_calibration_data_give_the_thresholds_of_the_original(reference_dir: Path, name: str, type_rt: str) -> None:
    import onnxruntime

    folder = reference_dir / "golden" / "conversions"
    spec = InputSpec(
        name="data", type_train="rgb", type_rt=type_rt, norm_type="data_mean_and_scale", mean=(127,), scale=(1 / 128,)
    )
    model = expand_composites(insert(load_onnx(folder / f"{name}.float.onnx"), [spec]))
    with np.load(folder / f"{name}.npz") as data:
        calibration = np.stack([data[key].reshape(3, 32, 32) for key in sorted(data) if key.startswith("cal__")])
    model.graph.outputs[:] = [model.graph.node("HZ_PREPROCESS_FOR_data_Conv_0").outputs[0]]
    session = onnxruntime.InferenceSession(to_bytes(model))
    fed = colour.calibration_input(calibration.transpose(0, 2, 3, 1), spec)
    maximum = max(float(np.abs(session.run(None, {"data": sample[None]})[0]).max()) for sample in fed)
    (expected,) = (
        node_attribute.floats[0]
        for node in onnx.load(folder / f"{name}.calib.onnx").graph.node
        for node_attribute in node.attribute
        if node.name == "HZ_PREPROCESS_FOR_data_HzCalibration" and node_attribute.name == "thresholds"
    )
    assert maximum == pytest.approx(expected, rel=2e-7)


@pytest.mark.parametrize("space", list(SpaceAndRange))
def test_yuv_and_back_is_close(space: SpaceAndRange) -> None:
    rgb = np.repeat(np.repeat(images(), 2, axis=1), 2, axis=2)
    spec = InputSpec(name="x", type_train="rgb", type_rt="nv12", space_and_range=space)
    back = as_trained(colour.convert_colour(rgb, InputType.RGB, InputType.NV12, space), spec)
    assert np.abs(back - rgb).max() < 6


@pytest.mark.parametrize("train", ["rgb", "bgr"])
@pytest.mark.parametrize("runtime", ["rgb", "bgr"])
def test_channel_order_is_undone_exactly(train: str, runtime: str) -> None:
    pixels = images()
    spec = InputSpec(name="x", type_train=train, type_rt=runtime)
    np.testing.assert_array_equal(as_trained(colour.convert_colour(pixels, train, runtime), spec), pixels)


def test_calibration_and_runtime_agree_where_nothing_is_rounded() -> None:
    pixels = images()
    for runtime in ("rgb", "bgr", "nv12"):
        spec = InputSpec(name="x", type_train="rgb", type_rt=runtime)
        fed = to_model_input(colour.convert_colour(pixels, InputType.RGB, spec.type_rt), spec)
        np.testing.assert_array_equal(colour.calibration_input(pixels, spec), fed)


def test_layout_follows_the_float_model() -> None:
    pixels = images()
    spec = InputSpec(name="x", type_train="rgb", type_rt="rgb", layout_train=Layout.NHWC)
    np.testing.assert_array_equal(to_model_input(pixels, spec), pixels.astype(np.float32) - 128)


def test_nv12_packing_is_undone_on_blocks() -> None:
    yuv = np.repeat(np.repeat(images(height=3, width=4), 2, axis=1), 2, axis=2)
    packed = colour.pack_nv12(yuv)
    assert packed.shape == (2, 9, 8)
    np.testing.assert_array_equal(colour.unpack_nv12(packed), yuv)


def test_odd_images_have_no_nv12() -> None:
    with pytest.raises(InferenceError, match="even"):
        colour.pack_nv12(images(height=5))
    with pytest.raises(InferenceError, match="nv12"):
        colour.unpack_nv12(np.zeros((1, 4, 4), np.uint8))


def test_gray_of_a_colour_model_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="not supported transform to input_type_rt 'gray' for now"):
        colour.conversion_matrix(InputType.GRAY, InputType.RGB, SpaceAndRange.REGULAR)
