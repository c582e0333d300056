"""Whole networks as the original makes them, by ``ptqlab conformance``: bars that may only rise.

The networks of a few nodes are kept with the project. Of the others every fifth is held out: nobody looked at it while
rules were looked for. Those and every second of the rest are measured in one of their forms, or at night all in all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from engine.conformance.cases import RecordedCase, find_cases
from engine.conformance.conversion import Ending
from engine.conformance.measures import Row, measure
from engine.conformance.run import MeasurePlan, held_out, measure_all
from engine.conformance.table import MEASURES, RowGroup, parts
from engine.simulate.fast import available_cpus
from tests.conftest import PROFILE

BUNDLED = Path(__file__).parents[1] / "golden" / "cases"
EVERY_FIFTH = 5
EVERY_SECOND = 2
FORMS = 3
"""Configurations per network, of which one is measured by day."""
SECONDS = 300.0
"""What a case may take on a busy machine."""

AGREE = frozenset(
    {
        "min_c2f_bayes-e_max_rgb",
        "min_clip_bayes-e_max_rgb",
        "min_deconv_bayes-e_max_rgb",
        "min_hardsigmoid_bayes-e_max_rgb",
        "min_heads_bernoulli2_max_rgb",
        "min_reset_bayes-e_kl_rgb",
        "min_shuffle_bernoulli2_max_rgb",
        "min_softmax_bayes-e_max_rgb",
    }
)
"""Networks of a few nodes of which nothing departs from the original."""

BARS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "converts": (1.0, 1.0),
        "outputs": (0.95, 0.55),
        "operators": (1.0, 0.70),
        "thresholds": (0.995, 0.91),
        "thresholds_mean": (0.98, 0.85),
        "devices": (0.995, 0.98),
        "integers": (0.81, 0.84),
        "simulator": (1.0, 1.0),
        "latency_median": (0.04, 0.15),
        "latency_p90": (0.24, 0.45),
    }
)
"""What was reached by day and at night, of the networks that were seen and of those that were held out."""


@pytest.mark.parametrize("case", find_cases(BUNDLED), ids=lambda case: case.name)
def test_networks_of_a_few_nodes(case: RecordedCase, tmp_path: Path) -> None:
    row = measure(case, tmp_path)
    assert row.outcome is not Ending.CRASHED, row.message
    assert row.converts
    assert row.simulator is not False
    assert case.name not in AGREE or row.departure is None


@pytest.fixture(scope="module")
def columns(reference_dir: Path) -> tuple[RowGroup, ...]:
    """Measures of the seen and of the held-out networks."""
    folder = reference_dir / "networks" / "cases"
    if not folder.is_dir():
        pytest.skip(f"no recorded networks ({folder})")
    cases = find_cases(folder)
    away = held_out(cases, EVERY_FIFTH)
    families = sorted({case.family for case in cases})
    chosen = [case for case in cases if PROFILE == "nightly" or _is_of_the_day(case, cases, families, away)]
    rows: list[Row] = list(measure_all(chosen, MeasurePlan(available_cpus(), SECONDS)))
    return parts([row.model_copy(update={"held_out": row.family in away}) for row in rows])


@pytest.mark.nightly
@pytest.mark.reference
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", BARS)
def test_networks(columns: tuple[RowGroup, ...], name: str) -> None:
    assert [column.name for column in columns] == ["seen", "held out"]
    for column, bar in zip(columns, BARS[name], strict=True):
        value = column.values[name]
        assert value is not None
        assert MEASURES[name].reaches(value, bar), f"{name}, {column.name}: {value:.4f}, the bar is {bar}"


def _is_of_the_day(
    case: RecordedCase, cases: tuple[RecordedCase, ...], families: list[str], away: Collection[str]
) -> bool:
    """Whether ``case`` is the one of its network's: the first of the first network, the third of the third …"""
    forms = [other.name for other in cases if other.family == case.family]
    place = families.index(case.family)
    is_measured = case.family in away or place % EVERY_SECOND == 0
    return is_measured and forms.index(case.name) == place % min(FORMS, len(forms))
