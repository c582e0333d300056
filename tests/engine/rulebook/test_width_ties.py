"""The rules of tensors that have one type, alone."""

from __future__ import annotations

from engine.chips import ChipFamily, load_chip
from engine.place.devices import mark_placement
from engine.rulebook.width_ties import TIES, Tying, members_of
from tests.engine.place.networks import network, one


def test_what_a_pool_reads_and_gives_has_one_type() -> None:
    model = network([one("MaxPool", "c0", kernel_shape=[1, 1])])
    mark_placement(model, load_chip("bayes-e"))
    (node,) = (node for node in model.graph if node.name == "Middle")
    site = Tying(node)
    rule = TIES.decide(site, ChipFamily.BAYES)
    assert rule is not None
    assert rule.id == "width.one-type"
    assert [value.name for value in rule.then(site)] == [value.name for value in members_of(site)] == ["c0", "m"]
