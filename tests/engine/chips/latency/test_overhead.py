"""Kinds of overheads, and what the marches say of them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from engine.chips.latency import Latency, load_latency
from engine.chips.latency.overhead import Measured, Overhead


@pytest.mark.parametrize("march", ["bayes-e", "bayes", "bernoulli2"])
def test_no_kind_of_layer_takes_less_than_nothing(march: str) -> None:
    found = load_latency(march).overheads
    assert found.keys() <= set(Overhead)
    assert all(measured.us >= 0 for measured in found.values())


def test_an_unknown_kind_is_refused() -> None:
    data = load_latency("bayes").model_dump()
    with pytest.raises(ValidationError, match="Input should be 'unfused'"):
        Latency.model_validate({**data, "overheads": {"unheard_of": Measured(us=1.5, networks=3).model_dump()}})
