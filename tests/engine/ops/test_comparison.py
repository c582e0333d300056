"""A map compared with its own maximum over windows."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from engine.chips import load_chip
from engine.errors import UnsupportedError
from engine.ops.comparison import CastRule, EqualRule, maximum_of
from engine.ops.core.reasons import Code
from tests.engine.ops.operators import Recorder, evaluate, float_node, int8, refused, scaled, tensor

MAP = (1, 4, 8, 8)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Equal", [0, 1, 0]),
        ("Greater", [0, 0, 1]),
        ("GreaterOrEqual", [0, 1, 1]),
        ("Less", [1, 0, 0]),
        ("LessOrEqual", [1, 1, 0]),
    ],
)
def test_comparison_of_equal_scales(name: str, expected: list[int]) -> None:
    x, e = int8(-128, 3, 127, shape=(1, 3)), int8(127, 3, -128, shape=(1, 3))
    assert evaluate("HzQuantizedComparison", [x, e], 2, comparison=name).tolist() == [expected]


def test_other_comparisons_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="comparison is 'Near'; allowed: Equal, Greater"):
        evaluate("HzQuantizedComparison", [int8(1), int8(1)], 2, comparison="Near")


def peaks(*, swapped: bool = False, cast: bool = True, of: str = "x") -> tuple[ir.Node, ir.Node]:
    """``Equal(x, MaxPool(of))`` and its reader."""
    x = tensor("x", *MAP)
    pooled = tensor("pooled", *MAP)
    ir.node("MaxPool", [x if of == "x" else tensor(of, *MAP)], outputs=[pooled])
    equal = float_node("Equal", [pooled, x] if swapped else [x, pooled], MAP)
    reader = ir.node("Cast" if cast else "Not", [equal.outputs[0]], outputs=[tensor("z", *MAP)], name="cast")
    return equal, reader


def test_only_a_map_and_its_own_maximum_cast_to_float_are_compared() -> None:
    assert [maximum_of(peaks(swapped=swapped)[0]) for swapped in (False, True)] == [1, 0]
    assert [EqualRule().activations(peaks(swapped=swapped)[0]) for swapped in (False, True)] == [(0,), (1,)]
    assert maximum_of(peaks(of="other")[0]) is None
    graphs = [peaks(), peaks(cast=False), peaks(of="other")]
    assert [refused(EqualRule(), equal) for equal, _ in graphs] == [None, Code.COMPARISON, Code.COMPARISON]
    equal, _ = peaks()
    ir.node("Cast", [equal.outputs[0]], outputs=[tensor("second", *MAP)])
    assert refused(EqualRule(), equal) is Code.COMPARISON


def test_the_cast_is_part_of_the_comparison() -> None:
    equal, cast = peaks()
    assert EqualRule().absorbs([equal], cast, load_chip("bayes-e"))
    assert not EqualRule().absorbs([equal, cast], cast, load_chip("bayes-e"))
    assert refused(CastRule(), cast) is None
    assert refused(CastRule(), peaks(of="other")[1]) is Code.NO_OPERATOR
    assert refused(CastRule(), float_node("Cast", [tensor("x", *MAP)], MAP)) is Code.NO_OPERATOR
    assert CastRule().fixed_thresholds(cast, "int8") == (None, 127.0)
    assert CastRule().activations(cast) == ()
    recorder = Recorder(x=scaled(0.5), pooled=scaled(0.5))
    EqualRule().lower([equal, cast], recorder)
    (made,) = recorder.nodes
    assert (made.attributes["comparison"], made.outputs, made.bits, made.scale) == ("Equal", ["z"], 8, [1.0])
