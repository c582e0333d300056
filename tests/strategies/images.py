"""Networks fed by a camera: an image input of every type, with the preprocessing that becomes part of the model."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.config import InputSpec
from tests.strategies.graphs import OPSETS, TAILS, Draw, GraphBuilder, conv, finish

TYPE_PAIRS = (
    ("rgb", "rgb"),
    ("rgb", "bgr"),
    ("bgr", "bgr"),
    ("bgr", "rgb"),
    ("gray", "gray"),
    ("yuv444", "yuv444"),
    ("rgb", "yuv444"),
    ("bgr", "yuv444"),
    ("rgb", "nv12"),
    ("bgr", "nv12"),
)
NORMS = ("data_mean_and_scale", "data_mean", "data_scale", "no_preprocess")


@dataclass(frozen=True)
class ImageCase:
    """A float network with one image input.

    Attributes:
        model: one input ``x``, float32 NCHW in ``spec.type_train``; one output ``y``.
        spec: how the converter is told to preprocess.
        pixels: uint8, shape (samples, H, W, C) in ``spec.type_train``.
    """

    model: onnx.ModelProto = field(repr=False)
    spec: InputSpec
    pixels: NDArray[np.uint8] = field(repr=False)
    blocks: tuple[str, ...]


@st.composite
def image_cases(draw: Draw, samples: int = 2) -> ImageCase:
    """Networks with one image input of a legal pair of types."""
    type_train, type_rt = draw(st.sampled_from(TYPE_PAIRS))
    channels = 1 if type_train == "gray" else 3
    height, width = 2 * draw(st.integers(2, 6)), 2 * draw(st.integers(2, 6))
    builder = GraphBuilder(draw(st.sampled_from(OPSETS)), draw(st.integers(0, 2**16)), "normal")
    builder.shapes["x"] = (1, channels, height, width)
    output = draw(st.sampled_from(TAILS))(builder, draw, conv(builder, draw, "x"))
    norm = draw(st.sampled_from(NORMS))
    per_channel = draw(st.booleans())
    count = channels if per_channel else 1
    means = st.integers(0, 255).map(float)
    mean = tuple(draw(st.lists(means, min_size=count, max_size=count))) if "mean" in norm else ()
    scales = st.integers(1, 100).map(lambda number: number / 1024)
    scale = tuple(draw(st.lists(scales, min_size=count, max_size=count))) if "scale" in norm else ()
    spec = InputSpec(
        name="x",
        type_train=type_train,
        layout_train="NCHW",
        type_rt=type_rt,
        layout_rt="NHWC",
        shape=builder.shapes["x"],
        norm_type=norm,
        mean=mean,
        scale=scale,
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    return ImageCase(
        model=finish(builder, builder.shapes["x"], output),
        spec=spec,
        pixels=rng.integers(0, 256, (samples, height, width, channels), dtype=np.uint8),
        blocks=(f"{type_train} -> {type_rt}", norm, *builder.blocks),
    )
