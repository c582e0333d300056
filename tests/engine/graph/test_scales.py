"""Where a scale comes from, kept on a node."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from engine.errors import ModelError
from engine.graph.scales import (
    MARK_SCALE,
    OWN,
    Gate,
    Gated,
    Margin,
    ScaleSource,
    change_scale_source,
    scale_source,
    set_scale_source,
)

SOURCES = (
    ScaleSource(of="a"),
    ScaleSource(of="a", rules=("scale.moved", "scale.first-moved")),
    ScaleSource(fixed=0.9959259629249573),
    ScaleSource(largest=("a", 0.5), margin=Margin(below=2.8, small=1.2, large=1.1)),
    ScaleSource(largest=("a", Gated("b", (Gate.SIGMOID, Gate.HARD_SIGMOID))), rules=("scale.joined-output",)),
)


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_written_is_read(source: ScaleSource) -> None:
    node = ir.node("Relu", [ir.Value(name="x")])
    set_scale_source(node, source)
    assert scale_source(node) == source


def test_a_tensor_of_its_own_scale_carries_nothing() -> None:
    node = ir.node("Relu", [ir.Value(name="x")])
    set_scale_source(node, ScaleSource(of="a"))
    change_scale_source(node, of=None)
    assert MARK_SCALE not in node.metadata_props
    assert scale_source(node) == OWN


@pytest.mark.parametrize(("source", "follows"), list(zip(SOURCES, (True, True, False, True, True), strict=True)))
def test_what_follows_others(source: ScaleSource, follows: bool) -> None:
    assert source.follows is follows


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"made_up": 1}', '"a"', '{"largest": [[1]]}', '{"largest": [{"of": "a", "gates": ["Elu"]}]}']
)
def test_what_something_else_wrote_is_refused(text: str) -> None:
    node = ir.node("Relu", [ir.Value(name="x")], metadata_props={MARK_SCALE: text})
    with pytest.raises(ModelError, match=r"hz\.scale"):
        scale_source(node)


def test_a_margin_is_smaller_for_large_thresholds() -> None:
    margin = Margin(below=2.8, small=1.2, large=1.1)
    assert (margin.of(1.0), margin.of(2.8)) == (1.2, pytest.approx(3.08))
    assert str(margin) == "1.2 times below 2.8, else 1.1 times"


def test_what_follows_from_one_tensor_alone_is_gated() -> None:
    gated = Gated("a", (Gate.SIGMOID, Gate.HARD_SIGMOID))
    assert ScaleSource(largest=(gated,)).gated == gated
    assert ScaleSource(largest=("a", gated)).gated is None
