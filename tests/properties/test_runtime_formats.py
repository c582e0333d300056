"""Through all stages: the ``.bin`` fed in the run-time format equals the source fed with the original image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper

from engine.config import InputSpec
from engine.frontend import colour
from engine.simulate import Session
from engine.terms import InputType, Layout, NormType
from tests.engine.frontend.networks import network
from tests.engine.frontend.test_input_formats import name_of, specs
from tests.properties.stages import MARCHES, Stages

SIZE = (16, 12)
LEAST_COSINE = 0.995
"""Of int8 against float32; exchanged channels or a forgotten offset give less than 0.98."""


def source_model(spec: InputSpec, channels: int) -> onnx.ModelProto:
    """Two convolutions that weigh the channels unequally."""
    rng = np.random.default_rng(0)
    chw = spec.layout_train is Layout.NCHW
    nodes = [] if chw else [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2])]
    nodes.append(helper.make_node("Conv", ["x" if chw else "t", "v", "b"], ["c"], pads=[1] * 4))
    nodes += [helper.make_node("Relu", ["c"], ["r"]), helper.make_node("Conv", ["r", "w"], ["y"])]
    shapes = {"v": (8, channels, 3, 3), "b": (8,), "w": (4, 8, 1, 1)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    shape = (1, channels, *SIZE) if chw else (1, *SIZE, channels)
    return network(nodes, {"x": shape}, ["y"], weights)


def images(channels: int, count: int) -> NDArray[np.uint8]:
    """Of one colour per 2x2 pixels, which is what nv12 keeps."""
    shape = (count, SIZE[0] // 2, SIZE[1] // 2, channels)
    return np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8).repeat(2, axis=1).repeat(2, axis=2)


def cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    a, b = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


@pytest.mark.parametrize("march", MARCHES)
@pytest.mark.parametrize("spec", [spec for spec in specs() if spec.norm_type is NormType.MEAN_AND_SCALE], ids=name_of)
def test_bin_on_run_time_images_equals_source_on_original_images(spec: InputSpec, march: str, tmp_path: Path) -> None:
    channels = 1 if spec.type_train is InputType.GRAY else 3
    pixels = images(channels, 3)
    calibration = colour.calibration_input(pixels, spec)
    stages = Stages(source_model(spec, channels), calibration, march, (spec,))
    normalised = (pixels.astype(np.float32) - np.float32(spec.mean)) * np.float32(spec.scale)
    chw = spec.layout_train is Layout.NCHW
    (expected,) = Session(stages.source).run({"x": normalised.transpose(0, 3, 1, 2) if chw else normalised}).values()

    delivered = colour.convert_colour(pixels, spec.type_train, spec.type_rt, spec.space_and_range)
    if spec.layout_rt is Layout.NCHW:
        delivered = delivered.transpose(0, 3, 1, 2)
    stages.compiled.save(tmp_path / "m.bin")
    session = Session(tmp_path / "m.bin")
    (taken,) = session.inputs
    assert taken.dtype == np.int8
    layout = Layout.NHWC if tuple(taken.shape) == (1, *SIZE, channels) else Layout.NCHW
    fed = {"x": colour.to_quantized_input(delivered, spec, layout)}
    (found,) = session.run(fed).values()
    assert cosine(found, expected) >= LEAST_COSINE
    (quantized,) = Session(stages.quantized).run(fed).values()
    np.testing.assert_array_equal(found, quantized)
