"""Resizing: pixels repeated by whole factors, and which factors and modes run on the BPU."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import pytest

from engine.chips import load_chip
from engine.ops.core.base import Tie
from engine.ops.core.reasons import Code
from engine.ops.resize_upsample import ResizeRule, is_nearest, refused_factors
from tests.engine.ops.operators import evaluate, float_node, int8, lowered, refused, scaled, tensor


def resize(height: int, width: int, before: tuple[int, ...] = (1, 4, 8, 8), **attributes: Any) -> ir.Node:
    return float_node("Resize", [tensor("x", *before)], (1, 4, height, width), **attributes)


def test_rows_and_columns_are_repeated() -> None:
    found = evaluate("HzQuantizedResizeUpsample", [int8(1, 2)], scale=[2, 3])
    assert found[0, :, :, 0].tolist() == [[1, 1, 1, 2, 2, 2]] * 2


@pytest.mark.parametrize(
    ("march", "height", "width", "code"),
    [
        ("bayes-e", 16, 16, None),
        ("bayes-e", 8, 256, None),
        ("bayes-e", 24, 16, Code.NEAREST_SCALES),
        ("bayes-e", 512, 16, Code.NEAREST_SCALES),
        ("bernoulli2", 512, 16, None),
        ("bernoulli2", 8, 16, None),
        ("bernoulli2", 24, 16, Code.NEAREST_SCALES),
    ],
)
def test_whole_factors_of_the_march(march: str, height: int, width: int, code: Code | None) -> None:
    node = resize(height, width)
    assert (refused(ResizeRule(), node, march), refused(ResizeRule(), node, march, late=True)) == (None, code)
    reason = refused_factors((8, 8), (height, width), load_chip(march))
    assert (None if reason is None else reason.code) is code


def test_a_part_of_a_factor_is_none() -> None:
    reason = refused_factors((8, 8), (12, 16), load_chip("bayes-e"))
    assert reason is not None
    assert (reason.code, reason.params) == (Code.NEAREST_SCALES, {"allowed": "[1, 2, 4, 8, 16, 32]"})


def test_factors_that_are_not_whole_are_refused_after_calibration() -> None:
    node = resize(12, 16)
    assert (refused(ResizeRule(), node), refused(ResizeRule(), node, late=True)) == (None, Code.NEAREST_NOT_WHOLE)
    assert refused(ResizeRule(), resize(16, 16), late=True) is None


@pytest.mark.parametrize(
    ("march", "height", "width", "code"),
    [
        ("bernoulli2", 16, 8, Code.NEAREST_ROWS),
        ("bernoulli2", 8, 16, None),
        ("bernoulli2", 8, 8, None),
        ("bayes-e", 16, 8, None),
    ],
)
def test_rows_alone_are_repeated_where_the_march_can(march: str, height: int, width: int, code: Code | None) -> None:
    assert refused(ResizeRule(), resize(height, width), march, late=True) is code


def test_modes() -> None:
    assert [is_nearest(resize(16, 16, **mode)) for mode in ({}, {"mode": "nearest"}, {"mode": "linear"})] == [
        True,
        True,
        False,
    ]
    cubic = resize(16, 16, mode="cubic")
    assert (refused(ResizeRule(), cubic), refused(ResizeRule(), cubic, late=True)) == (None, Code.RESIZE_MODE)
    assert refused(ResizeRule(), resize(8 * 65, 16, mode="linear")) is Code.SCALE
    odd = resize(16, 16, mode="linear", coordinate_transformation_mode="tf_crop_and_resize")
    assert refused(ResizeRule(), odd, late=True) is Code.COORDINATES


def test_only_height_and_width_are_resized() -> None:
    assert refused(ResizeRule(), resize(16, 16, before=(1, 2, 8, 8))) is Code.RANK_4_SIZES


def test_resized_values_have_the_scale_that_is_read() -> None:
    rule = ResizeRule()
    assert (rule.passive, rule.int16_inputs, rule.int16_outputs) == (True, False, False)
    assert rule.tie(resize(16, 16)) is Tie.ONE_FOR_BOTH
    made = lowered(rule, resize(16, 32), x=scaled(0.5), y=scaled(0.25))
    assert (made.op_type, made.scale) == ("HzQuantizedResizeUpsample", [0.5])
    assert made.attributes == {"mode": "nearest", "scale": [2, 4], "data_format": "NHWC"}
    assert lowered(rule, resize(16, 16, mode="linear"), x=scaled(1), y=scaled(1)).op_type == "HzQuantizedRoiResize"
