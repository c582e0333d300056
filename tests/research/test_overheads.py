"""The second step of the fit: overheads come out of networks, single layers stay as they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.chips.latency import Latency, load_latency
from engine.chips.latency.overhead import Measured, Overhead
from engine.compile.compiler import CompileOptions, memory_of
from engine.compile.schedule import Schedule
from engine.terms import OptimizeLevel
from research.deployed import Deployed, Figures
from research.overheads import (
    MeasuredPart,
    Shown,
    _towards_mean,
    fit_apart,
    fit_overheads,
    latency_us,
    parts_of,
)
from tests.research.rows import row, schedule_of_row

FILE = load_latency("bayes-e")
TRUTH = FILE.model_copy(
    update={
        "alone": None,
        "overheads": {Overhead.TABLE: Measured(us=3.0, networks=2), Overhead.JOIN: Measured(us=5.0, networks=2)},
        "fitted": FILE.fitted.model_copy(update={"fixed_us": 2.0, "entry_us": 1.0, "layer_us": 0.5}),
    }
)


def schedule(layers: list[dict[str, object]], level: OptimizeLevel = OptimizeLevel.O2) -> Schedule:
    spec = {"in": {"data": [1, 16, 8, 8]}, "layers": layers}
    memory = memory_of(TRUTH, CompileOptions(optimize_level=level))
    found = schedule_of_row(row(16, 8, 3).model_copy(update={"spec": spec}), TRUTH, memory)
    assert found is not None
    return found


CONV = {"op": "conv", "cout": 16, "k": 3, "act": "relu"}
TABLES = [CONV, {"op": "act"}, CONV, {"op": "act"}, CONV]
JOINS = [CONV, {"op": "conv", "n": "b", "cout": 16, "k": 3, "act": "relu"}, {"op": "concat", "i": ["L0", "b"]}, CONV]


def inner(planned: Schedule) -> Schedule:
    """The same subgraph behind another one."""
    tensors = tuple(tensor.model_copy(update={"inner": True}) for tensor in planned.inputs)
    return planned.model_copy(update={"inputs": tensors})


def network(
    net: str, layers: list[dict[str, object]], truth: Latency = TRUTH, level: str = "O2", *, behind: bool = False
) -> Deployed:
    planned = schedule(layers, OptimizeLevel(level))
    planned = inner(planned) if behind else planned
    measured = Figures(latency=latency_us([planned], truth), ddr=1)
    return Deployed(f"{net}_a", net, "bayes-e", OptimizeLevel(level), (measured,), (planned,))


def test_overheads_of_a_synthetic_machine_are_recovered() -> None:
    networks = [network("a", TABLES), network("b", [*TABLES, CONV]), network("c", JOINS), network("d", [CONV] * 6)]
    networks += [network("e", [CONV] * 3, behind=True), network("f", TABLES, behind=True)]
    planned = [schedule([CONV] * count) for count in (1, 2, 3, 9)]
    rows = [MeasuredPart.of_row(latency_us([one], TRUTH), one) for one in planned]
    (found,) = fit_overheads([Shown(rows, networks, FILE)])
    assert found.fitted.fixed_us == pytest.approx(2.0, rel=0.02)
    assert found.fitted.entry_us == pytest.approx(1.0, rel=0.03)
    assert found.fitted.layer_us == pytest.approx(0.5, rel=0.02)
    assert found.overheads[Overhead.TABLE].us == pytest.approx(3.0, rel=0.02)
    assert found.overheads[Overhead.JOIN].us == pytest.approx(5.0, rel=0.02)
    assert found.overheads[Overhead.TABLE].networks == 3
    assert found.overheads[Overhead.JOIN].networks == 1


def test_what_one_march_does_not_show_is_taken_from_the_other() -> None:
    rows = [
        MeasuredPart.of_row(latency_us([one], TRUTH), one) for one in (schedule([CONV] * count) for count in (1, 9))
    ]
    seen, bare = Shown(rows, [network("a", TABLES), network("c", JOINS)], FILE), Shown(rows, [], FILE)
    first, second = fit_overheads([seen, bare])
    for overhead, us in ((Overhead.TABLE, 3.0), (Overhead.JOIN, 5.0)):
        assert first.overheads[overhead].us == pytest.approx(us, rel=0.05)
        assert second.overheads[overhead].us == pytest.approx(us, rel=0.05)
        assert second.overheads[overhead].networks == 0


def test_constants_of_one_kind_are_pulled_towards_each_other() -> None:
    """No network shows the one: it is as dear as the other."""
    pulled = _towards_mean([0, 2], np.array([4.0, 1.0, 2.0]))
    np.testing.assert_allclose(pulled @ [3.0, 9.0, 3.0], 0.0, atol=1e-12)
    np.testing.assert_allclose(pulled @ [4.0, 9.0, 2.0], np.array([1.0, -1.0]) / 3.0)
    assert _towards_mean([], np.ones(3)).shape == (0, 3)


def test_networks_of_a_few_nodes_weigh_as_much_as_rows() -> None:
    planned = schedule(TABLES)
    one, small = (replace(network(net, TABLES), net=net) for net in ("a", "min_a"))
    row_weight = MeasuredPart.of_row(1.0, planned).weight
    assert [part.weight for part in parts_of([one, small])] == [1.0, row_weight]
    assert row_weight < 1


def test_unfused_layers_cost_what_o0_shows() -> None:
    slower = TRUTH.model_copy(update={"overheads": {**TRUTH.overheads, Overhead.UNFUSED: Measured(us=4.0, networks=1)}})
    parts = parts_of([network("a", TABLES, slower, "O0"), network("b", JOINS, slower, "O0")])
    (found,) = fit_apart([parts], [TRUTH], Overhead.UNFUSED, [2])
    assert found.overheads[Overhead.UNFUSED] == Measured(us=4.0, networks=2)
    (unknown,) = fit_apart([parts], [found], Overhead.SINGLE_DDR, [0])
    assert unknown == found


def test_equal_conversions_count_once_and_unequal_partitions_as_a_whole() -> None:
    one = network("a", TABLES)
    two = Deployed("a_c", "a", "bayes-e", OptimizeLevel.O3, one.subgraphs, one.schedules)
    split = Deployed("b_a", "b", "bayes-e", OptimizeLevel.O2, one.subgraphs * 2, one.schedules)
    parts = parts_of([one, two, split])
    assert [part.net for part in parts] == ["a", "b"]
    assert parts[1].measured_us == pytest.approx(2 * one.latency_us)


def test_what_computing_times_told_is_not_fitted_and_all_else_says_what_shows_it() -> None:
    told = Measured(us=7.0, networks=0, timed=9)
    latency = TRUTH.model_copy(update={"overheads": {**TRUTH.overheads, Overhead.BLOCKS: told}})
    planned = [schedule(layers) for layers in (TABLES, JOINS, [CONV] * 3)]
    rows = [MeasuredPart.of_row(latency_us([one], TRUTH), one) for one in planned]
    (found,) = fit_overheads([Shown(rows, [], latency)])
    assert found.overheads[Overhead.BLOCKS] == told
    assert found.overheads[Overhead.TABLE].draws == found.overheads[Overhead.JOIN].draws == 1
    assert found.overheads[Overhead.TABLE].timed == 0
