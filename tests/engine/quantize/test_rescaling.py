"""Integers of constants, and nodes that change a scale or a width."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.chips import ChipFamily
from engine.ops.core.base import Quantized
from engine.quantize.rescaling import constant_integers, requantize, rescale
from engine.quantize.writer import GraphWriter
from engine.rulebook.name import NamedPart, NameSite, Naming
from tests.engine.ops.operators import Recorder, scaled, tensor


def form(*shape: int, scale: float = 0.5) -> Quantized:
    return Quantized(tensor("q", *shape, dtype=ir.DataType.INT8), scaled(scale).scales, 8)


def test_constants_are_rounded_half_away_from_zero_and_saturated() -> None:
    array = np.array([0.25, 0.75, -1000.0, 1000.0], np.float32)
    assert constant_integers(array, scaled(0.5), 1, "flat").tolist() == [1, 2, -128, 127]
    wide = constant_integers(array, scaled(0.5, qtype="int16"), 2, "flat")
    assert (wide.dtype, wide.tolist()) == (np.int16, [[1, 2, -2000, 2000]])


@pytest.mark.parametrize(
    ("shape", "rank", "layout", "expected"),
    [
        ((2, 3, 4), 4, "NHWC", (1, 3, 4, 2)),
        ((2, 3, 4), 4, "NCHW", (1, 2, 3, 4)),
        ((2, 3, 4), 3, "NHWC", (2, 3, 4)),
        ((4,), 5, "NHWC", (1, 1, 1, 1, 4)),
    ],
)
def test_constants_get_the_rank_and_layout_of_their_reader(
    shape: tuple[int, ...], rank: int, layout: str, expected: tuple[int, ...]
) -> None:
    assert constant_integers(np.ones(shape, np.float32), scaled(1), rank, layout).shape == expected


@pytest.mark.parametrize(
    ("shape", "layout", "axis", "count"),
    [((1, 4, 5, 6), "NHWC", 3, 6), ((1, 4, 5, 6), "NCHW", 3, 1), ((1, 5, 6), "flat", 2, 6)],
)
def test_a_multiplier_per_channel_where_they_come_last(
    shape: tuple[int, ...], layout: str, axis: int, count: int
) -> None:
    """Scale 0.5 to 0.125 is a factor of 4: 2**14 over 2**12."""
    names = Naming(ChipFamily.BAYES)
    writer = GraphWriter(names)
    result = requantize("n", layout, form(*shape), scaled(0.125), writer, names)
    (node,) = writer.nodes
    found = {name: item.value for name, item in node.attributes.items()}
    assert (found["axis"], found["bits"], found["method"]) == (axis, 8, "Rescale")
    assert (found["output_scale"], found["output_right_shift"]) == ((1 << 14,) * count, (12,) * count)
    assert found.get("data_format") == ("NHWC" if len(shape) == 4 else None)
    assert (node.op_type, node.name, result.name) == ("HzRequantize", "n", "n_requantized_output")
    assert (result.dtype, result.shape) == (ir.DataType.INT8, ir.Shape(shape))


def test_a_convolution_is_named_after_the_scale() -> None:
    names = Naming(ChipFamily.BERNOULLI)
    writer = GraphWriter(names)
    name = names.of(NameSite(NamedPart.REQUANTIZES, tensor="t", scale=0.25, as_convolution=True))
    result = rescale(name, form(1, 4, 5, 6), scaled(0.25, qtype="int16"), Recorder("bernoulli2"), writer, names)
    (node,) = writer.nodes
    assert (node.op_type, node.name) == ("HzSQuantizedConv", "UNIT_CONV_FOR_t_calibrated_0.25000_TO_FUSE_SCALE")
    assert result.name == f"{node.name}_quantized"
    assert (result.dtype, result.shape) == (ir.DataType.INT16, ir.Shape((1, 4, 5, 6)))
    assert node.attributes["group"].as_int() == 6
