"""The timeline keeps the order of the engines and the totals of the cost model."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ContainerError
from engine.perf.performance import LayerPerformance, SubgraphPerformance
from engine.perf.timeline import intervals, timeline

MICROSECONDS = st.floats(0, 500, allow_nan=False)


@st.composite
def subgraphs(draw: st.DrawFn) -> SubgraphPerformance:
    layers = tuple(
        LayerPerformance(
            name=f"layer{index}",
            op_type="HzSQuantizedConv",
            ops=1,
            output_shape=(1, 1, 1, 1),
            aligned_shape=(1, 1, 1, 1),
            compute_us=draw(MICROSECONDS) + 0.01,
            load_us=draw(MICROSECONDS),
            store_us=draw(MICROSECONDS),
            loaded_bytes=0,
            stored_bytes=0,
        )
        for index in range(draw(st.integers(1, 8)))
    )
    layers = tuple(
        LayerPerformance(
            **{**vars(layer), "loaded_bytes": round(layer.load_us * 100), "stored_bytes": round(layer.store_us * 70)}
        )
        for layer in layers
    )
    return SubgraphPerformance("graph", draw(st.floats(1, 2000)), 0, 0, layers)


@given(subgraphs())
def test_engines_work_one_layer_at_a_time_and_in_order(subgraph: SubgraphPerformance) -> None:
    times = timeline(subgraph)
    assert max(entry.active.end for entry in times) == pytest.approx(subgraph.latency_us)
    for entry in times:
        assert entry.load.end <= entry.compute.start + 1e-6
        assert entry.compute.end <= entry.store.start + 1e-6
    for before, after in pairwise(times):
        for engine in ("load", "compute", "store"):
            assert getattr(before, engine).end <= getattr(after, engine).start + 1e-6


@given(subgraphs(), st.floats(1, 300))
def test_intervals_add_up_to_the_totals(subgraph: SubgraphPerformance, length: float) -> None:
    times = timeline(subgraph)
    found = intervals(times, length)
    assert sum(entry.loaded_bytes for entry in found) == pytest.approx(
        sum(entry.layer.loaded_bytes for entry in times if entry.load.length), abs=1e-3
    )
    assert sum(entry.stored_bytes for entry in found) == pytest.approx(
        sum(entry.layer.stored_bytes for entry in times if entry.store.length), abs=1e-3
    )
    assert all(0 <= entry.computing <= 1 + 1e-6 for entry in found)


def test_a_frame_of_more_than_a_hundred_seconds_is_refused() -> None:
    slow = LayerPerformance("layer", "HzSQuantizedConv", 1, (1,), (1,), 1e9, 0.0, 0.0, 0, 0)
    with pytest.raises(
        ContainerError, match=r"a frame of the schedule takes 1e\+03 s: more than 1000000 intervals of 0.1 ms"
    ):
        intervals(timeline(SubgraphPerformance("graph", 1e9, 0, 0, (slow,))))
