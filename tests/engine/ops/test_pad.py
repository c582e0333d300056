"""Borders of a constant or of the edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.chips import load_chip
from engine.errors import UnsupportedError
from engine.ops.core.base import Quantized, Tie
from engine.ops.core.reasons import Code
from engine.ops.pad import PadRule, pad_value, pad_widths, zero_padding
from tests.engine.ops.operators import Recorder, constant, evaluate, float_node, int8, refused, scaled, tensor

MAP = (1, 4, 8, 8)


def test_pad_modes() -> None:
    x, pads = int8(1, 2), [0, 0, 1, 0, 0, 0, 2, 0]
    assert evaluate("HzPad", [x], pads=pads, value=7).ravel().tolist() == [7, 1, 2, 7, 7]
    assert evaluate("HzPad", [x, np.array([-128], np.int8)], pads=pads).ravel().tolist() == [-128, 1, 2, -128, -128]
    assert evaluate("HzPad", [x], pads=pads, mode="edge").ravel().tolist() == [1, 1, 2, 2, 2]
    with pytest.raises(UnsupportedError, match="mode is 'reflect'; allowed: constant, edge"):
        evaluate("HzPad", [x], pads=pads, mode="reflect")


def test_widths_and_value_are_attributes_or_inputs() -> None:
    x = tensor("x", *MAP)
    old = float_node("Pad", [x], MAP, pads=[0, 0, 1, 1, 0, 0, 1, 1], value=2.5)
    assert (pad_widths(old), pad_value(old)) == ([0, 0, 1, 1, 0, 0, 1, 1], 2.5)
    new = float_node("Pad", [x, constant("p", np.arange(8)), constant("v", np.float32(-1.5))], MAP)
    assert (pad_widths(new), pad_value(new)) == (list(range(8)), -1.5)
    assert pad_widths(float_node("Pad", [x, tensor("p", 8)], MAP)) is None
    by_axes = float_node("Pad", [x, constant("p", np.arange(8)), None, constant("a", np.arange(4))], MAP)
    assert (pad_widths(by_axes), pad_value(by_axes)) == (None, 0.0)


@pytest.mark.parametrize(
    ("shape", "attributes", "march", "code"),
    [
        (MAP, {"pads": [0, 0, 1, 1, 0, 0, 1, 1]}, "bernoulli2", None),
        (MAP, {"pads": [0, 1, 1, 1, 0, 0, 1, 1]}, "bernoulli2", Code.PADDED_AXES),
        (MAP, {"pads": [0, 1, 1, 1, 0, 2, 1, 1], "mode": "edge"}, "bayes-e", None),
        (MAP, {"pads": [0, 0, 1, 1, 0, 0, 1, -1]}, "bayes-e", None),
        (MAP, {"pads": [0, 0, 1, 1, 0, 0, 1, -1], "mode": "edge"}, "bayes-e", Code.PADS),
        (MAP, {"pads": [0, 0, 1, 1, 0, 0, 1, 1], "mode": "reflect"}, "bayes-e", None),
        ((1, 4, 8), {"pads": [0, 0, 1, 0, 0, 1]}, "bayes-e", Code.RANK_4),
    ],
)
def test_what_is_padded(shape: tuple[int, ...], attributes: dict[str, Any], march: str, code: Code | None) -> None:
    assert refused(PadRule(), float_node("Pad", [tensor("x", *shape)], MAP, **attributes), march) is code


def test_negative_widths_cut_off() -> None:
    x = np.arange(24, dtype=np.int8).reshape(1, 4, 6, 1)
    found = evaluate("HzPad", [x], pads=[0, -1, 1, 0, 0, 0, -2, 0], value=7)
    expected = np.full((1, 3, 5, 1), 7, np.int8)
    expected[:, :, 1:] = x[:, 1:, :4]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("mode", "code"), [("constant", None), ("edge", None), ("reflect", Code.PAD_MODE)])
def test_what_reflects_is_refused_late(mode: str, code: Code | None) -> None:
    node = float_node("Pad", [tensor("x", *MAP)], MAP, pads=[0, 0, 1, 1, 0, 0, 1, 1], mode=mode)
    reason = PadRule().late_refusal(node, load_chip("bayes-e"))
    assert (None if reason is None else reason.code) is code


@pytest.mark.parametrize(("value", "integer"), [(0.75, 2), (1.25, 2), (-1000.0, -128), (1000.0, 127)])
def test_widths_are_those_of_nhwc_and_the_value_is_rounded_to_an_integer(value: float, integer: int) -> None:
    node = float_node("Pad", [tensor("x", *MAP)], MAP, pads=[1, 2, 3, 4, 5, 6, 7, 8], value=value)
    recorder = Recorder(x=scaled(0.5))
    PadRule().lower([node], recorder)
    (made,) = recorder.nodes
    assert made.attributes == {"pads": [1, 3, 4, 2, 5, 7, 8, 6], "mode": "constant", "data_format": "NHWC"}
    assert made.inputs == ["x NHWC", "n_pad"]
    assert recorder.constants["n_pad"].tolist() == [integer]
    assert (made.bits, made.scale) == (8, [0.5])


def test_an_edge_has_a_value_as_well() -> None:
    """As the original writes it, from the source and from the ship folder (a draw of the hunt, seed 38002)."""
    node = float_node("Pad", [tensor("x", *MAP)], MAP, pads=[0, 0, 1, 1, 0, 0, 1, 1], mode="edge")
    recorder = Recorder(x=scaled(0.5))
    PadRule().lower([node], recorder)
    assert recorder.nodes[0].inputs == ["x NHWC", "n_pad"]


def test_what_is_padded_keeps_its_scale() -> None:
    """What its result is calibrated as is for those who read that (``padded_channels`` of parity/recorded/ships)."""
    node = float_node("Pad", [tensor("x", *MAP)], MAP, pads=[0, 0, 1, 1, 0, 0, 1, 1], mode="constant", value=0.5)
    recorder = Recorder(x=scaled(0.5), y=scaled(0.25))
    PadRule().lower([node], recorder)
    assert PadRule().tie(node) is Tie.ONE_FOR_BOTH
    assert recorder.nodes[0].scale == [0.5]
    assert recorder.constants["n_pad"].tolist() == [1]


def test_zero_of_an_unsigned_map_is_its_least_integer() -> None:
    recorder = Recorder()
    form = Quantized(tensor("q", 1, 8, 6, 4), scaled(0.5).scales, 8, 128)
    inputs, attributes, shape = zero_padding("p", form, [1, 2, 3, 4], recorder)
    assert [value.name for value in inputs] == ["q", "p_pad"]
    assert recorder.constants["p_pad"].tolist() == [-128]
    assert (attributes["pads"], shape) == ([0, 1, 2, 0, 0, 3, 4, 0], (1, 12, 12, 4))
