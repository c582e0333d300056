"""Sources whose images reach the converted model in YUV: a right preprocessing is right, a wrong one is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from engine.calibrate.data.sources import as_fed
from engine.config import InputSpec
from engine.debug.bisection.bisect import Material, bisect
from engine.debug.bisection.round_trip import with_colours_of
from engine.debug.bisection.stages import StageName
from engine.frontend import preprocess
from engine.frontend.onnx import load_onnx
from engine.terms import InputType, Layout, NormType
from tests.engine.debug.bisection.unfolded import SIZE, save

MEAN, SCALE = (123.7, 116.3, 103.5), (0.017, 0.0175, 0.0174)
Array = NDArray[Any]


def spec(type_rt: InputType = InputType.NV12, type_train: InputType = InputType.RGB) -> InputSpec:
    return InputSpec(
        name="image",
        shape=(1, 3, SIZE, SIZE),
        type_train=type_train,
        layout_train=Layout.NCHW,
        type_rt=type_rt,
        norm_type=NormType.MEAN_AND_SCALE,
        mean=MEAN,
        scale=SCALE,
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> ir.Model:
    return load_onnx(save(tmp_path_factory.mktemp("model") / "model.onnx"))


@pytest.fixture(scope="module")
def images() -> Array:
    """Smooth ones with edges, as photographs are."""
    ramp = np.arange(SIZE) * 12
    first = np.stack([ramp[:, None] + ramp[None], 200 - ramp[:, None] + 0 * ramp[None], 40 + 0 * ramp + ramp[:, None]])
    second = np.random.RandomState(0).randint(0, 256, (3, SIZE, SIZE))
    return np.stack([first, second]).astype(np.uint8)


def normalised(images: Array, mean: Any = MEAN) -> Array:
    shape = (1, 3, 1, 1)
    return ((images - np.reshape(mean, shape)) * np.reshape(SCALE, shape)).astype(np.float32)


def first_bad(source: ir.Model, images: Array, source_feed: Array, wanted: InputSpec) -> Any:
    original = preprocess.insert(source, [wanted])
    stages = {StageName.SOURCE: source, StageName.ORIGINAL: original}
    return bisect(Material(stages, {"image": as_fed(images, wanted)}, {"image": source_feed})).first_bad


@pytest.mark.parametrize("type_rt", [InputType.NV12, InputType.YUV444, InputType.RGB])
def test_a_right_preprocessing_is_not_named(source: ir.Model, images: Array, type_rt: InputType) -> None:
    assert first_bad(source, images, normalised(images), spec(type_rt)) is None


@pytest.mark.parametrize("type_rt", [InputType.NV12, InputType.YUV444])
def test_reversed_channels_are_named(source: ir.Model, images: Array, type_rt: InputType) -> None:
    smooth = images[:1]
    bad = first_bad(source, smooth, normalised(smooth[:, ::-1]), spec(type_rt))
    assert bad is not None
    assert bad.node == "HZ_PREPROCESS_FOR_image"
    assert "reverse order" in (bad.finding or "")


@pytest.mark.parametrize("mean", [(0.0, 0.0, 0.0), (125.7, 116.3, 103.5)])
def test_a_wrong_mean_is_named(source: ir.Model, images: Array, mean: tuple[float, ...]) -> None:
    bad = first_bad(source, images, normalised(images, mean), spec())
    assert bad is not None
    assert bad.node == "HZ_PREPROCESS_FOR_image"
    assert "mean difference per channel" in (bad.finding or "")


def test_what_does_not_go_through_yuv_stays(source: ir.Model, images: Array) -> None:
    feed = {"image": normalised(images), "other": images}
    for type_rt, type_train in ((InputType.RGB, InputType.RGB), (InputType.NV12, InputType.YUV444)):
        found = with_colours_of(preprocess.insert(source, [spec(type_rt, type_train)]), feed)
        assert found["image"] is feed["image"]
        assert found["other"] is feed["other"]


def test_a_scale_of_zero_leaves_nothing_to_convert(source: ir.Model, images: Array) -> None:
    nothing = spec().model_copy(update={"scale": (0.0, 1.0, 1.0)})
    feed = {"image": normalised(images)}
    assert with_colours_of(preprocess.insert(source, [nothing]), feed)["image"] is feed["image"]
