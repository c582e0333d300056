"""The rules of types that are asked for, alone: what stands against int16."""

from __future__ import annotations

import numpy as np
import pytest

from engine.chips import ChipFamily, load_chip
from engine.place.devices import mark_placement
from engine.rulebook.width_requests import SIDES, neighbours_of
from tests.engine.place.networks import network, one


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
