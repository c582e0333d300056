"""Draws: the same at every call, small, and of what they say."""

from __future__ import annotations

import pytest

from engine.terms import OptimizeLevel
from research.draws import APART, FAMILIES, NETWORKS, SEED, UNFUSED, WHOLE, latency_draw


@pytest.mark.parametrize("family", [*FAMILIES, *WHOLE, f"windows{UNFUSED}"])
def test_a_draw_is_the_same_at_every_call(family: str) -> None:
    first, second = latency_draw(family, 1, "bayes-e"), latency_draw(family, 1, "bayes-e")
    assert first.model.SerializeToString() == second.model.SerializeToString()
    assert (first.level, first.cores, first.requests) == (second.level, second.cores, second.requests)
    assert first.key == (family, 1, "bayes-e", SEED)
    assert first.model.SerializeToString() != latency_draw(family, 2, "bayes-e").model.SerializeToString()


def test_int16_is_asked_for_only_where_there_is_any() -> None:
    assert latency_draw("conv_int16", 0, "bayes-e").requests
    assert not latency_draw("conv_int16", 0, "bernoulli2").requests


def test_levels_and_cores_vary_and_networks_are_compiled_as_they_are_shipped() -> None:
    draws = [latency_draw("reduce", index, "bernoulli2") for index in range(40)]
    assert {draw.level for draw in draws} >= {OptimizeLevel.O0, OptimizeLevel.O2}
    assert {draw.cores for draw in draws} == {1, 2}
    assert latency_draw(NETWORKS, 3, "bayes").level is OptimizeLevel.O2


def test_networks_of_another_seed_are_other_networks_on_one_core() -> None:
    apart = latency_draw("network_o0", 2, "bernoulli2", max(APART))
    assert (apart.level, apart.cores, apart.key[3]) == (OptimizeLevel.O0, 1, max(APART))
    assert apart.model.SerializeToString() != latency_draw("network_o0", 2, "bernoulli2").model.SerializeToString()
