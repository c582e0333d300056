"""O3: plans that are never worse than those of O2, found once and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.compile import search
from engine.compile.cost import layer_costs, subgraph_us
from engine.compile.layers import Layer
from engine.compile.memory import Memory, spilled_tensors
from engine.compile.schedule import InputTensor, Schedule, schedule_layers
from engine.march.latency import load_latency
from engine.ops.core.costs import CostKind

LATENCY = load_latency("bayes-e")
DEPTHS = (8, 64, 64, 16, 64, 64, 8)
SIZE = 64


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return search.cache_folder()


def rows(channels: int) -> int:
    return 8 * SIZE * channels


MEMORY = Memory(group_bytes=rows(8 + 64 + 64 + 16 + 64), map_bytes=0)
"""Room for the first four layers, which leave a wide map; the first three leave the narrow one."""


def planned() -> Schedule:
    shapes = [(1, SIZE, SIZE, depth) for depth in DEPTHS]
    layers = tuple(
        Layer(
            name=f"c{at}",
            op_type="HzSQuantizedConv",
            kind=CostKind.CONV,
            inputs=(f"c{at - 1}" if at else "x",),
            output=f"c{at}",
            input_shapes=(shapes[at],),
            output_shape=shapes[at + 1],
            macs=1,
        )
        for at in range(len(DEPTHS) - 1)
    )
    inputs = (InputTensor(name="x", dtype="int8", shape=shapes[0]),)
    return schedule_layers("s", inputs, (layers[-1].output,), layers, MEMORY)


def microseconds(schedule: Schedule) -> float:
    return subgraph_us(schedule, layer_costs(schedule, LATENCY), LATENCY.fitted)


def test_a_cut_moves_to_the_map_that_is_cheap_to_spill() -> None:
    """A plan that leaves a wide map to DDR; the search cuts at the narrow one."""
    greedy = planned().model_copy(update={"groups": ((0, 1, 2, 3), (4, 5)), "spilled": ("c3",)})
    found = search.searched(greedy, MEMORY, LATENCY)
    assert microseconds(found) < microseconds(greedy)
    assert [at for group in found.groups for at in group] == list(range(len(found.layers)))
    assert found.spilled == spilled_tensors(found.layers, found.outputs, found.groups, MEMORY)


def test_a_repeated_search_reads_the_cache(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    found = search.searched(planned(), MEMORY, LATENCY)
    assert len(list(cache.iterdir())) == 1

    def refuse(*_: object) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr(search, "_search", refuse)
    assert search.searched(planned(), MEMORY, LATENCY) == found
    assert search.searched(planned().model_copy(update={"name": "other"}), MEMORY, LATENCY).groups == found.groups


@pytest.mark.parametrize("content", ["", "[", "[]", "[0, 3]", "[3, 2]", "[99]", '{"a": 1}'])
def test_a_damaged_or_unfit_cache_entry_is_searched_anew(cache: Path, content: str) -> None:
    found = search.searched(planned(), MEMORY, LATENCY)
    (entry,) = cache.iterdir()
    entry.write_text(content)
    assert search.searched(planned(), MEMORY, LATENCY) == found


def test_the_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_LAYER_EVALUATIONS", 0)
    greedy = planned()
    prices = []
    price = search._price
    monkeypatch.setattr(search, "_price", lambda *args: prices.append(args) or price(*args))
    search.searched(greedy, MEMORY, LATENCY)
    assert len(prices) <= 2
