"""O3: a bounded search over fusion cuts, judged by the cost model, and its cache.

A plan is where one fused group ends and the next begins; which maps then go through DDR follows
(:func:`~engine.compile.memory.spilled_tensors`). The search starts at the plan of O2 and moves, drops or adds one cut
at a time as long as that makes the subgraph faster and moves no more bytes than O2 does; so O3 is never worse than O2
in the model's eyes. What it found is kept in a file per subgraph, named by a digest of all that it depends on.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from engine.compile.cost import layer_costs, subgraph_us
from engine.compile.memory import Memory, fits_together, spilled_tensors
from engine.compile.schedule import Schedule
from engine.ir import write_atomically
from engine.march.latency import Latency
from engine.sealed import sealed, unsealed

logger = logging.getLogger(__name__)

Cuts = tuple[int, ...]
"""Positions of the layers that begin a group, the first layer left out; ascending."""

_LAYER_EVALUATIONS = 100_000
"""Layers that the search prices at most, all plans together: seconds, whatever the size of the subgraph."""
_PLAN: TypeAdapter[dict[Literal["cuts"], Cuts]] = TypeAdapter(dict[Literal["cuts"], Cuts])
"""What a file of the cache holds, sealed."""


def searched(schedule: Schedule, memory: Memory, latency: Latency) -> Schedule:
    """``schedule`` with the fastest plan that the search of O3 finds, or found before: plans are kept in the cache.

    Args:
        schedule: as :func:`~engine.compile.schedule.schedule_layers` gives it.
        memory: on the chip of the march.
        latency: its cost model, in microseconds.
    """
    file = cache_folder() / f"{_digest(schedule, memory, latency)}.json"
    cuts = _read(file, len(schedule.layers))
    if cuts is None or not _fits(schedule, cuts, memory):
        cuts = _search(schedule, memory, latency)
        _write(file, cuts)
    return _with_cuts(schedule, cuts, memory)


def cache_folder() -> Path:
    """Where plans are kept: ``ptqlab/plans`` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ptqlab" / "plans"


def _search(schedule: Schedule, memory: Memory, latency: Latency) -> Cuts:
    """Each move that helps is taken at once, in running order, until none helps or the bound is reached."""
    best = tuple(group[0] for group in schedule.groups[1:])
    fastest, most = _price(schedule, best, memory, latency)
    evaluations = max(1, _LAYER_EVALUATIONS // max(1, len(schedule.layers)))
    improved = True
    while improved:
        improved = False
        for position in range(1, len(schedule.layers)):
            for candidate in _moves(best, position):
                if not evaluations:
                    return best
                evaluations -= 1
                if not _fits(schedule, candidate, memory):
                    continue
                price, traffic = _price(schedule, candidate, memory, latency)
                if price < fastest and traffic <= most:
                    best, fastest, improved = candidate, price, True
    return best


def _moves(cuts: Cuts, position: int) -> Iterator[Cuts]:
    """Plans that differ in the cut before ``position``: without it, with it one layer later, or with one there."""
    others = set(cuts) - {position}
    if position not in cuts:
        yield tuple(sorted({*others, position}))
        return
    yield tuple(sorted(others))
    yield tuple(sorted({*others, position + 1}))
    if position > 1:
        yield tuple(sorted({*others, position - 1}))


def _groups(layers: int, cuts: Cuts) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(range(start, stop)) for start, stop in pairwise((0, *cuts, layers)))


def _fits(schedule: Schedule, cuts: Cuts, memory: Memory) -> bool:
    if cuts and cuts[-1] >= len(schedule.layers):
        return False
    groups = _groups(len(schedule.layers), cuts)
    return all(len(group) == 1 or fits_together([schedule.layers[at] for at in group], memory) for group in groups)


def _with_cuts(schedule: Schedule, cuts: Cuts, memory: Memory) -> Schedule:
    groups = _groups(len(schedule.layers), cuts)
    spilled = spilled_tensors(schedule.layers, schedule.outputs, groups, memory)
    return schedule.model_copy(update={"groups": groups, "spilled": spilled})


def _price(schedule: Schedule, cuts: Cuts, memory: Memory, latency: Latency) -> tuple[float, int]:
    """Microseconds and bytes over DDR of a plan."""
    planned = _with_cuts(schedule, cuts, memory)
    costs = layer_costs(planned, latency)
    traffic = sum(cost.traffic.loaded + cost.traffic.stored for cost in costs)
    return subgraph_us(planned, costs, latency.fitted), traffic


def _digest(schedule: Schedule, memory: Memory, latency: Latency) -> str:
    """Of all that the search depends on: the schedule without its name, the memory and the march's data."""
    content = [schedule.model_dump_json(exclude={"name"}), repr(memory), latency.model_dump_json()]
    return hashlib.sha256("\n".join(content).encode()).hexdigest()


def _read(file: Path, layers: int) -> Cuts | None:
    """A plan from the cache; None if the file does not hold one for this number of layers."""
    try:
        cuts = _PLAN.validate_json(unsealed(file.read_bytes()))["cuts"]
    except OSError:
        return None
    except ValueError as error:
        logger.warning("%s: is no plan (%s); searched anew", file, str(error).splitlines()[0])
        return None
    ascending = all(a < b for a, b in pairwise((0, *cuts, layers)))
    return cuts if ascending else None


def _write(file: Path, cuts: Sequence[int]) -> None:
    """Keep a plan; a folder that cannot be written to only costs the next search."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, sealed(json.dumps({"cuts": list(cuts)})))
    except OSError:
        return
