"""A model fed in the run-time format computes what the source model computes of the original image.

For every legal pair of formats, every layout and range: what remains is the colour conversion's own loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper

from engine.config import InputSpec
from engine.errors import ConfigError, UnsupportedError
from engine.frontend import colour
from engine.frontend.onnx import load_onnx
from engine.frontend.preprocess import insert
from engine.ir import to_bytes
from engine.ops.foreign.composite import expand_composites
from engine.terms import SUPPORTED_CONVERSIONS, InputType, Layout, NormType, SpaceAndRange
from tests.engine.frontend.images import to_model_input
from tests.engine.frontend.networks import network, saved

PAIRS = [(train, runtime) for train, allowed in SUPPORTED_CONVERSIONS.items() for runtime in allowed]
IMAGES = [pair for pair in PAIRS if pair[0] is not InputType.FEATUREMAP]

LOSS = {InputType.YUV444: 1.9, InputType.NV12: 4.5}
"""Largest error of a channel, in levels of the image: rounding of each component to whole levels (for nv12: cutting off
its fraction), times the largest row sum of the matrix back, and the four digits of the matrices."""


def specs() -> Iterator[InputSpec]:
    """Every legal pair of formats in every layout, range and normalisation."""
    for train, runtime in IMAGES:
        is_nv12, channels = runtime is InputType.NV12, 1 if train is InputType.GRAY else 3
        layouts = (None,) if is_nv12 else tuple(Layout)
        has_ranges = is_nv12 and train is not InputType.YUV444
        ranges = tuple(SpaceAndRange) if has_ranges else (SpaceAndRange.REGULAR,)
        for trained, delivered, space, norm in product(Layout, layouts, ranges, NormType):
            yield InputSpec(
                name="x",
                type_train=train,
                type_rt=runtime,
                layout_train=trained,
                layout_rt=delivered,
                space_and_range=space,
                norm_type=norm,
                mean=(103.94, 116.78, 0.0)[:channels] if norm.has_mean else (),
                scale=(0.5, 0.25, 1 / 58)[:channels] if norm.has_scale else (),
            )


def name_of(spec: InputSpec) -> str:
    """Of a test with ``spec``."""
    layouts = f"{spec.layout_train.value}-{spec.layout_rt.value if spec.layout_rt else 'packed'}"
    return f"{spec.type_train.value}-{spec.type_rt.value}-{layouts}-{spec.space_and_range.value}-{spec.norm_type.value}"


def opened(model: ir.Model) -> Callable[[np.ndarray], np.ndarray]:
    """What runs ``model``."""
    session = onnxruntime.InferenceSession(to_bytes(model), providers=["CPUExecutionProvider"])
    return lambda x: np.asarray(session.run(None, {"x": x})[0])


SEEDS = range(3)


@pytest.mark.parametrize("spec", list(specs()), ids=name_of)
def test_run_time_format_equals_the_original_image(spec: InputSpec, tmp_path: Path) -> None:
    channels = 1 if spec.type_train is InputType.GRAY else 3
    shape = (1, channels, 4, 6) if spec.layout_train is Layout.NCHW else (1, 4, 6, channels)
    model = network([helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Sub", ["x", "a"], ["b"]),
                     helper.make_node("Add", ["a", "b"], ["y"])], {"x": shape}, ["y"])  # fmt: skip
    source = load_onnx(saved(model, tmp_path))
    trained, converted = opened(source), opened(expand_composites(insert(source, [spec])))
    for seed in SEEDS:
        check_image(spec, seed, trained, converted)


def check_image(
    spec: InputSpec,
    seed: int,
    trained: Callable[[np.ndarray], np.ndarray],
    converted: Callable[[np.ndarray], np.ndarray],
) -> None:
    """A random image in both formats gives both models the same result."""
    channels, chw = (1 if spec.type_train is InputType.GRAY else 3), spec.layout_train is Layout.NCHW
    blocks = np.random.default_rng(seed).integers(0, 256, (1, 2, 3, channels), dtype=np.uint8)
    image = blocks.repeat(2, axis=1).repeat(2, axis=2)  # nv12 keeps one chroma per 2x2 pixels
    scales = np.float32(spec.scale or 1.0)
    normalised = (image.astype(np.float32) - np.float32(spec.mean or 0.0)) * scales
    expected = trained(normalised.transpose(0, 3, 1, 2) if chw else normalised)

    delivered = colour.convert_colour(image, spec.type_train, spec.type_rt, spec.space_and_range)
    if spec.layout_rt is Layout.NCHW:
        delivered = delivered.transpose(0, 3, 1, 2)
    fed = to_model_input(delivered, spec)
    found = converted(fed)
    lossless = spec.type_train is InputType.YUV444 and spec.type_rt is InputType.YUV444
    loss = 0.0 if lossless else LOSS.get(spec.type_rt, 0.0)
    if spec.type_train is InputType.YUV444 and spec.type_rt is InputType.NV12:
        loss = 0.0
    scale = scales.reshape((-1, 1, 1) if chw else (-1,))
    assert np.all(np.abs(found - expected) <= loss * scale + 1e-3)

    integers = colour.to_quantized_input(delivered, spec, spec.layout_train)
    np.testing.assert_array_equal(integers.astype(np.float32), fed)
    other = Layout.NHWC if chw else Layout.NCHW
    turned = colour.to_quantized_input(delivered, spec, other).transpose((0, 3, 1, 2) if chw else (0, 2, 3, 1))
    np.testing.assert_array_equal(turned, integers)


def test_a_feature_map_is_fed_as_it_is(tmp_path: Path) -> None:
    model = network([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 2, 4, 6)}, ["y"])
    original = insert(
        load_onnx(saved(model, tmp_path)), [InputSpec(name="x", type_train="featuremap", type_rt="featuremap")]
    )
    assert [node.op_type for node in original.graph] == ["Relu"]
    x = np.random.default_rng(0).normal(size=(1, 2, 4, 6)).astype(np.float32)
    np.testing.assert_array_equal(opened(original)(x), np.maximum(x, 0))


@pytest.mark.parametrize("train", list(InputType))
@pytest.mark.parametrize("runtime", list(InputType))
def test_only_the_documented_pairs(train: InputType, runtime: InputType) -> None:
    """The documents' table, written out."""
    table = {
        "yuv444": "nv12 yuv444",
        "rgb": "nv12 yuv444 rgb bgr",
        "bgr": "nv12 yuv444 rgb bgr",
        "gray": "gray",
        "featuremap": "featuremap",
        "nv12": "",
    }
    if runtime.value in table[train.value].split():
        colour.check_conversion(train, runtime)
    else:
        with pytest.raises(UnsupportedError, match="not supported transform to input_type_rt"):
            colour.check_conversion(train, runtime)


@pytest.mark.parametrize("size", [(5, 6), (6, 5), (5, 5)])
def test_odd_sizes_are_for_all_formats_but_nv12(tmp_path: Path, size: tuple[int, int]) -> None:
    model = network([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 3, *size)}, ["y"])
    source = load_onnx(saved(model, tmp_path))
    with pytest.raises(ConfigError, match="needs even height and width"):
        insert(source, [InputSpec(name="x", type_train="rgb", type_rt="nv12")])
    made = insert(source, [InputSpec(name="x", type_train="rgb", type_rt="yuv444")])
    assert [node.op_type for node in made.graph] == ["HzPreprocess", "Relu"]


@pytest.mark.parametrize(("train", "runtime"), [("yuv444", "nv12"), ("yuv444", "yuv444"), ("rgb", "yuv444")])
def test_video_range_is_for_nv12_of_rgb(tmp_path: Path, train: str, runtime: str) -> None:
    model = network([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 3, 4, 4)}, ["y"])
    spec = InputSpec(name="x", type_train=train, type_rt=runtime, space_and_range="bt601_video")
    with pytest.raises(UnsupportedError, match="input_space_and_range 'bt601_video' is for input_type_rt 'nv12'"):
        insert(load_onnx(saved(model, tmp_path)), [spec])
