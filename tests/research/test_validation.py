"""What an estimate is worth on rows and networks that the fit did not see."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.chips.latency import ModelAccuracy
from engine.terms import OptimizeLevel
from research import validation
from research.deployed import Deployed
from research.validation import (
    FOLDS,
    Evidence,
    accuracy_of,
    built_text,
    cross_validated,
    errors_of_networks,
    family,
    held_out,
    left_out,
    networks_report,
    without_each_network,
    worst_networks,
)
from tests.research.rows import row


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates are the schedules' figures times the data; traffic is a tenth of them."""

    monkeypatch.setattr(validation, "latency_us", lambda schedules, latency: sum(schedules) * latency)
    monkeypatch.setattr(validation, "traffic_bytes", lambda schedules, latency: sum(schedules) / 10)


def network(net: str, latency_us: float = 100.0, ddr: float = 10.0, *, kept: bool = False) -> Any:
    return SimpleNamespace(
        net=net,
        march="bayes-e",
        name=f"{net}@bayes-e",
        latency_us=latency_us,
        ddr_bytes=ddr,
        schedules=[60.0, 40.0],
        level=OptimizeLevel.O2,
        held_out=kept,
    )


def test_errors_are_relative_to_the_measured_network() -> None:
    latency, traffic = errors_of_networks([(network("a"), 1.1), (network("b", 200.0, 8.0), 1.0)])  # type: ignore[list-item]
    np.testing.assert_allclose(latency, [0.1, 0.5])
    np.testing.assert_allclose(traffic, [0.0, 0.25])


def test_the_stated_uncertainty_covers_nine_networks_of_ten() -> None:
    estimates = [(network(str(n), 100.0, 10 / (1 + n / 50)), 1 + n / 100) for n in range(11)]
    assert accuracy_of(estimates) == ModelAccuracy(latency=0.09, ddr=0.18)  # type: ignore[arg-type]
    some = [(network("a", ddr=10 / 1.23456), 1.12345)]
    assert accuracy_of(some) == ModelAccuracy(latency=0.123, ddr=0.235)  # type: ignore[arg-type]


def test_networks_are_left_out_with_all_their_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "cases_of", lambda networks, latency: [])
    monkeypatch.setattr(
        validation,
        "_with_overheads",
        lambda generation, cases, latencies: ["+".join(n.name for n in each.deployed) for each in generation],
    )
    first, other, again = network("b"), network("a"), network("b", 1.0)
    found = left_out([Evidence(networks=[], deployed=[first, other, again])], [1.0])  # type: ignore[list-item]
    assert found == [(other, "b@bayes-e+b@bayes-e"), (first, "a@bayes-e"), (again, "a@bayes-e")]


def test_families_are_left_out_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """On all marches of a generation; a network that is alone of its kind is a family of its own."""
    monkeypatch.setattr(validation, "cases_of", lambda networks, latency: [])
    monkeypatch.setattr(
        validation,
        "_with_overheads",
        lambda generation, cases, latencies: ["+".join(n.net for n in each.deployed) for each in generation],
    )
    first, other, same = (Deployed(net, net, "bayes", OptimizeLevel.O2, (), ()) for net in ("swin", "alone", "detr"))
    marches = [Evidence(networks=[], deployed=[first, other]), Evidence(networks=[], deployed=[same])]
    found = left_out(marches, [1.0, 1.0], family)  # type: ignore[list-item]
    assert found == [(other, "swin"), (first, "alone"), (same, "")]


def test_networks_that_no_fit_saw() -> None:
    seen, kept = network("a"), network("b", kept=True)
    assert held_out([seen, kept], 1.0) == [(kept, 1.0)]  # type: ignore[arg-type]


def test_reports() -> None:
    estimates: Any = [(network("a"), 1.1), (network("a"), 1.3), (network("b"), 0.8)]
    assert networks_report("some", []) == f"{'some':34} -"
    assert networks_report("some", estimates) == f"{'some':34}   2    3   20.0%   28.0%    0.0%    0.0%  pairs -"
    slow: Any = (network("c", 150.0), 0.7)
    assert networks_report("some", [*estimates, slow]).endswith("pairs 0.0% of 3")  # estimated as 70 us
    assert list(worst_networks(estimates, 2)) == [
        "  a@bayes-e                    O2     100.0 us, estimated     130.0 (+30.0%)",
        "  b@bayes-e                    O2     100.0 us, estimated      80.0 (-20.0%)",
    ]
    parts: Any = [SimpleNamespace(schedules=[1.0], measured_us=2.0), SimpleNamespace(schedules=[1.0], measured_us=1.0)]
    assert built_text([], 1.0) == ""  # type: ignore[arg-type]
    assert built_text(parts, 1.0) == f"{'other operators, O2':24}    2   25.0%   45.0%\n"  # type: ignore[arg-type]


def rows(*ids: tuple[str, str, str]) -> Any:
    """Rows by spec, level and network."""
    return [
        (
            row(8, 8, 1).model_copy(
                update={"id": f"{spec}|{level}", "optimize_level": level, "spec": {"net": net}}
                | ({"kind": "net"} if net else {})
            ),
            spec,
        )
        for spec, level, net in ids
    ]


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Specs that each fit saw."""
    seen: list[list[str]] = []

    def fit(generation: list[Evidence], latencies: Any) -> list[int]:
        seen.append([str(name) for _, name in generation[0].networks])
        return [len(seen) - 1]

    monkeypatch.setattr(validation, "fit", fit)
    monkeypatch.setattr(validation, "cases_of", lambda networks, latency: [row.id for row, _ in networks])
    return seen


def test_a_spec_is_unseen_at_every_level(fits: list[list[str]]) -> None:
    """Seven specs in five folds: the first and the sixth go together, and only O2 is judged."""
    names = "abcdefg"
    evidence = Evidence(networks=rows(*((name, level, "") for name in names for level in ("O2", "O0"))))
    found = cross_validated(evidence, 1.0)  # type: ignore[arg-type]
    assert len(fits) == FOLDS == 5
    assert found == [(f"{name}|O2", fold) for fold, pair in enumerate(("af", "bg", "c", "d", "e")) for name in pair]
    assert fits[0] == [name for name in "bcdeg" for _ in range(2)]


def test_a_network_is_left_out_whatever_its_input_size(fits: list[list[str]]) -> None:
    evidence = Evidence(
        networks=rows(("small", "O2", "net"), ("layer", "O2", ""), ("large", "O2", "net"), ("other", "O2", "more"))
    )
    found = without_each_network(evidence, 1.0)  # type: ignore[arg-type]
    assert found == [("small|O2", 0), ("large|O2", 0), ("other|O2", 1)]
    assert fits == [["layer", "other"], ["small", "layer", "large"]]
