"""The rules of types, alone: which decide over which."""

from __future__ import annotations

import numpy as np
import pytest

from engine.chips import ChipFamily, load_chip
from engine.facts.chains import chains
from engine.place import PlacementOptions
from engine.place.devices import mark_placement
from engine.rulebook.width import SIDES, TAILS, TIES, Chained, Tying, Width, members_of, neighbours_of
from tests.engine.place.networks import network, one


@pytest.mark.parametrize(
    ("op_type", "output_type", "asked_int8", "rule", "then"),
    [
        ("Sigmoid", None, False, "width.result", Width.INT16),
        ("Sigmoid", "int16", False, "width.result", Width.INT16),
        ("Sigmoid", "int8", False, "width.outputs-int8", Width.LEFT),
        ("Sigmoid", None, True, "width.end-in-int8", Width.LEFT),
        ("Clip", None, False, "width.clip", Width.ALIKE),
        ("Transpose", None, False, "width.moved-accumulator", Width.LEFT),
    ],
)
def test_a_result_at_the_end(op_type: str, output_type: str | None, asked_int8: bool, rule: str, then: Width) -> None:
    model, chip = network([one(op_type, "c0")], tail=False), load_chip("bayes-e")
    mark_placement(model, chip, PlacementOptions(run_on_bpu=frozenset({"Middle"})))
    found = chains(model, chip)
    heads = {value: chain[0] for chain in found for value in chain[-1].outputs}
    site = Chained(
        found[-1],
        output_type=output_type,
        heads=heads,
        asked_int8={node.inputs[0] for node in found[-1][-1:] if node.inputs[0]} if asked_int8 else (),
    )
    decided = TAILS.decide(site, ChipFamily.BAYES)
    assert decided is not None
    assert (decided.id, decided.then) == (rule, then)
    assert TAILS.decide(site, ChipFamily.BERNOULLI) is None


@pytest.mark.parametrize(
    ("op_type", "rules"),
    [
        ("GlobalMaxPool", ["width.no-int16"]),
        ("MaxPool", []),
        ("ConvTranspose", ["width.no-int16"]),
    ],
)
def test_what_stands_against_int16_on_a_side(op_type: str, rules: list[str]) -> None:
    attributes = {"kernel_shape": [2, 2]} if op_type == "MaxPool" else {}
    inputs = ("c0", "k") if op_type == "ConvTranspose" else ("c0",)
    model = network([one(op_type, *inputs, **attributes)], constants={"k": np.ones((4, 4, 2, 2), np.float32)})
    mark_placement(model, load_chip("bayes-e"))
    (node,) = (node for node in model.graph if node.name == "Middle")
    value = node.inputs[0]
    assert value is not None
    found = [SIDES.decide(side, ChipFamily.BAYES) for side in neighbours_of(value, ())]
    assert [rule.id for rule in found if rule is not None] == rules


def test_what_a_pool_reads_and_gives_has_one_type() -> None:
    model = network([one("MaxPool", "c0", kernel_shape=[1, 1])])
    mark_placement(model, load_chip("bayes-e"))
    (node,) = (node for node in model.graph if node.name == "Middle")
    site = Tying(node)
    rule = TIES.decide(site, ChipFamily.BAYES)
    assert rule is not None
    assert rule.id == "width.one-type"
    assert [value.name for value in rule.then(site)] == [value.name for value in members_of(site)] == ["c0", "m"]
