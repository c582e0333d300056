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
    ScaleSource,
    change_scale_source,
    scale_source,
    set_scale_source,
)

SOURCES = (
    ScaleSource(of="a"),
    ScaleSource(of="a", values="b", rules=("scale.moved", "scale.moved-values")),
    ScaleSource(fixed=0.9959259629249573),
    ScaleSource(largest=("a", 0.5), factor=1.2),
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
    "text", ["{", "[]", '{"made_up": 1}', '"a"', '{"largest": [[1]]}', '{"largest": [{"of": "a", "gates": ["Tanh"]}]}']
)
def test_what_something_else_wrote_is_refused(text: str) -> None:
    node = ir.node("Relu", [ir.Value(name="x")], metadata_props={MARK_SCALE: text})
    with pytest.raises(ModelError, match=r"hz\.scale"):
        scale_source(node)


@pytest.mark.parametrize(
    ("gate", "read", "given"),
    [
        (Gate.SIGMOID, 1.0, 0.7310585975646973),
        (Gate.SIGMOID, 1.0843411684036255, 0.7473146319389343),
        (Gate.SIGMOID, 5.49897, 0.9959256649017334),
        (Gate.SIGMOID, 5.867514610290527, 0.9971780776977539),
        (Gate.SIGMOID, 6.50604772567749, 0.9985077977180481),
        (Gate.SIGMOID, 11.09031, 0.9999847412109375),
        (Gate.SIGMOID, 12.540882110595703, 0.9999964237213135),
        (Gate.HARD_SIGMOID, 1.0843411684036255, 0.6807235479354858),
        (Gate.HARD_SIGMOID, 3.0, 1.0),
        (Gate.HARD_SIGMOID, 6.50604772567749, 1.0),
    ],
)
def test_thresholds_behind_gates_are_those_of_the_original(gate: Gate, read: float, given: float) -> None:
    """Asked of 1.24.3: the threshold of what a gate reads, and that of what it gives, to the last bit."""
    assert gate(read) == given


def test_gates_follow_one_another() -> None:
    gated = Gated("a", (Gate.SIGMOID, Gate.HARD_SIGMOID))
    assert gated(1.0) == Gate.HARD_SIGMOID(0.7310585975646973)
    assert ScaleSource(largest=(gated,)).gated == gated
    assert ScaleSource(largest=("a", gated)).gated is None
