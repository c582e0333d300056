"""Performance data of the marches: one file each, closed, and those that another's stand in for."""

from __future__ import annotations

import pytest

from engine.chips import CHIPS, MEASURED_MARCHES
from engine.chips.latency import ModelAccuracy, data_file, load_latency, marches
from engine.errors import UnsupportedError


def test_every_measured_march_has_a_file() -> None:
    assert marches() == tuple(sorted(MEASURED_MARCHES))
    assert all(data_file(march).is_file() for march in marches())


@pytest.mark.parametrize("march", sorted(CHIPS.keys() - MEASURED_MARCHES))
def test_marches_without_figures_have_those_of_another(march: str) -> None:
    assert load_latency(march) == load_latency(CHIPS[march].figures)


def test_full_size_networks_have_an_uncertainty_of_their_own() -> None:
    bayes_e, bayes = load_latency("bayes-e"), load_latency("bayes")
    assert bayes_e.full_size is not None
    above = bayes_e.full_size.above_us
    assert bayes_e.accuracy_at(above) == bayes_e.accuracy
    assert bayes_e.accuracy_at(above + 1) == bayes_e.full_size.accuracy != bayes_e.accuracy
    assert bayes.accuracy_at(above + 1) == bayes.accuracy


def test_estimates_at_o0_have_an_uncertainty_of_their_own() -> None:
    latency = load_latency("bernoulli2").model_copy(update={"unfused": ModelAccuracy(latency=0.7, ddr=0.6)})
    assert latency.accuracy_at(10, unfused=True).latency == 0.7
    assert latency.accuracy_at(10) == latency.accuracy
    unknown = latency.model_copy(update={"unfused": None})
    assert unknown.accuracy_at(10, unfused=True) == latency.accuracy


def test_an_unknown_march_is_refused() -> None:
    with pytest.raises(
        UnsupportedError, match=r"march 'nash-x' has no performance data; it should be one of \['bayes'"
    ):
        load_latency("nash-x")
