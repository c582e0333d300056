"""The rules of types at the end of the BPU's part, alone: which decide over which."""

from __future__ import annotations

import pytest

from engine.chips import ChipFamily, load_chip
from engine.facts.chains import chains
from engine.place import PlacementOptions
from engine.place.devices import mark_placement
from engine.rulebook.width_ends import TAILS
from engine.rulebook.width_sites import Chained, Width
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
