"""What layers take at O0, fitted to the times of each layer."""

from __future__ import annotations

import pytest

from engine.chips.latency import Latency, load_latency
from engine.compile.layers import Overlap
from engine.compile.schedule import Schedule
from engine.compile.unfused import unfused_costs
from engine.ops.core.costs import CostKind
from engine.terms import OptimizeLevel
from research.answers import Answered
from research.asking import AskedDraw, AskedLayer, AskedSubgraph
from research.unfused import fit_unfused, timed_layers
from tests.engine.compile.layers import alone

TRUTH = load_latency("bayes-e").model_copy(update={"alone": None})
SIDES = (8, 16, 24, 32, 48, 64)


def page(name: str, transfer_us: float, compute_us: float = 1.0) -> AskedLayer:
    return AskedLayer(
        name=name, shape=(1,), compute_us=compute_us, transfer_us=transfer_us, start_us=0, end_us=transfer_us
    )


def answered(schedule: Schedule, *pages: AskedLayer, level: OptimizeLevel = OptimizeLevel.O0) -> Answered:
    figures = AskedSubgraph(latency_us=100, loaded=1, stored=1, layers=pages)
    asked = AskedDraw(family="lut_o0", index=0, march="bayes-e", level=level, cores=1, subgraphs=(figures,))
    return Answered(asked, (schedule.model_copy(update={"overlap": Overlap.NONE}),))


def tables(latency: Latency, sides: tuple[int, ...] = SIDES) -> list[Answered]:
    """Tables of maps that take what ``latency`` says."""
    found = []
    for side in sides:
        schedule = alone(CostKind.LUT, (1, side, side, 64), (1, side, side, 64))
        (cost,) = unfused_costs(schedule.layers, latency)
        moved_us = cost.moved / 2000 * (1 / latency.fitted.load_gbps + 1 / latency.fitted.store_gbps)
        found.append(answered(schedule, page(schedule.layers[0].name, cost.wait_us + moved_us, 0.25 * moved_us)))
    return found


def test_the_figures_of_a_kind_are_found_again_and_count_their_layers() -> None:
    (found,) = fit_unfused([(tables(TRUTH), TRUTH)], [1.0])
    known, table = TRUTH.unfused_layers["lut"], found.unfused_layers["lut"]
    assert table.us == pytest.approx(known.us, rel=0.02)
    assert table.layers == len(SIDES)
    assert table.bytes == {"maps": pytest.approx(known.bytes["maps"], rel=0.02)}
    assert 0.1 < found.unfused_work < 0.25
    assert {kind for kind, value in found.unfused_layers.items() if not value.apart} == {"lut"}


def test_a_march_of_few_layers_takes_the_figures_of_the_other_at_its_pace() -> None:
    few = [*tables(TRUTH, (8,)), answered(tables(TRUTH, (8,))[0].schedules[0], level=OptimizeLevel.O2)]
    first, second = fit_unfused([(tables(TRUTH), TRUTH), (few, TRUTH)], [1.0, 0.8])
    assert second.unfused_layers == {}
    added = [answered(alone(CostKind.ADD, (1, 8, 8, 8), (1, 8, 8, 8)), page("layer", 5.0))] * 4
    name = added[0].schedules[0].layers[0].name
    added = [answered(each.schedules[0], page(name, 5.0)) for each in added]
    _, second = fit_unfused([(tables(TRUTH), TRUTH), (added, TRUTH)], [1.0, 0.8])
    table = second.unfused_layers["lut"]
    assert table.us == pytest.approx(0.8 * first.unfused_layers["lut"].us, rel=0.02)
    assert table.layers == 0


def test_pages_of_layers_and_of_layout_changes_are_told_apart() -> None:
    schedule = alone(CostKind.CONV, (1, 8, 8, 16), (1, 8, 8, 16))
    (conv,) = schedule.layers
    conv = conv.model_copy(update={"converted": (0,)})
    schedule = schedule.model_copy(update={"layers": (conv,)})
    pages = (
        page(f"{conv.name}_NCHW2NHWC_LayoutConvert_Input0", 7.0),
        page(f"{conv.name}-conv", 5.0),
        page("another", 3.0),
        page("another_NHWC2NCHW_LayoutConvert_Output0", 3.0),
        page(f"{conv.name}_NHWC2NCHW_LayoutConvert_Output0", 3.0),
    )
    timed = list(timed_layers([answered(schedule, *pages)], TRUTH))
    assert [(each.kind, each.transfer_us, each.beside) for each in timed] == [
        ("to_pixels", 7.0, True),
        ("conv_entering", 5.0, False),
    ]
    assert not list(timed_layers([answered(schedule, *pages, level=OptimizeLevel.O1)], TRUTH))


def test_steps_of_a_layer_are_one_and_a_map_stored_once_more_counts_beside_its_layer() -> None:
    shape = (1, 16, 16, 24)
    (first,) = alone(CostKind.CONV, shape, shape).layers
    (mean,) = alone(CostKind.REDUCE, (1, 16, 16, 1), shape).layers
    mean = mean.model_copy(update={"name": "mean", "inputs": (first.output,), "output": "mean"})
    schedule = alone(CostKind.CONV, shape, shape).model_copy(update={"layers": (first, mean)})
    pages = (page(first.name, 9.0), page("padded_mean", 2.0), page("mean_SPLIT_WITH_DEPTHWISE_CONV_0", 5.0))
    given, reduced = timed_layers([answered(schedule, *pages)], TRUTH)
    assert (given.kind, given.transfer_us, given.own and given.own[0]) == ("for_reduce", 9.0, "conv_entering")
    assert (reduced.kind, reduced.transfer_us, reduced.compute_us) == ("reduce_depth", 7.0, 2.0)


def test_marches_of_which_nothing_was_asked_stay_as_they_are() -> None:
    assert fit_unfused([([], TRUTH)], [1.0])[0].unfused_layers == {}
