"""When each engine works for each layer of a subgraph, and how much every interval of a frame moves and computes.

The cost model gives a subgraph's latency as a whole; the timeline is an event simulation of its layers on the three
engines (load, compute, store) in running order: a layer computes when its data are there, the layer before it is
done and its overhead has passed, it stores when it has computed, and the next layer's data are loaded ahead. Its end is
stretched or shrunk to the latency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import ContainerError
from engine.limits import beyond, limit
from engine.perf.performance import LayerPerformance, SubgraphPerformance

INTERVAL_US = 100.0
"""Length of an interval of the utilisation figures: 0.1 ms, as the original's."""

_ROUNDING = 1e-9
"""Part of an interval that is no interval of its own."""


@dataclass(frozen=True)
class Span:
    """From ``start`` to ``end``, microseconds from the start of the subgraph."""

    start: float
    end: float

    @property
    def length(self) -> float:
        """Microseconds."""
        return self.end - self.start

    def within(self, start: float, end: float) -> float:
        """Microseconds of the span that lie between ``start`` and ``end``."""
        return max(0.0, min(self.end, end) - max(self.start, start))


@dataclass(frozen=True)
class LayerTimes:
    """When a layer is loaded, computed and stored."""

    layer: LayerPerformance
    load: Span
    compute: Span
    store: Span

    @property
    def active(self) -> Span:
        """From its first load to its last store."""
        return Span(min(self.load.start, self.compute.start), max(self.compute.end, self.store.end))


@dataclass(frozen=True)
class Interval:
    """What happens in one interval.

    Attributes:
        start_us: its beginning.
        computing: share of it in which the computing unit works, 0..1.
        loaded_bytes: loaded in it.
        stored_bytes: stored in it.
    """

    start_us: float
    computing: float
    loaded_bytes: float
    stored_bytes: float


def timeline(subgraph: SubgraphPerformance) -> tuple[LayerTimes, ...]:
    """Layers of ``subgraph`` in running order; the last store ends at its latency."""
    loaded = computed = stored = 0.0
    times = []
    for layer in subgraph.layers:
        load = Span(loaded, loaded + layer.load_us)
        compute_start = max(computed, load.end) + layer.overhead_us
        compute = Span(compute_start, compute_start + layer.compute_us)
        store_start = max(stored, compute.end)
        store = Span(store_start, store_start + layer.store_us)
        loaded, computed, stored = load.end, compute.end, store.end
        times.append(LayerTimes(layer, load, compute, store))
    end = max(computed, stored)
    factor = subgraph.latency_us / end if end else 1.0
    return tuple(_scaled(entry, factor) for entry in times)


def intervals(times: Sequence[LayerTimes], interval_us: float = INTERVAL_US) -> tuple[Interval, ...]:
    """Figures of the intervals of a frame; sums over all intervals equal the subgraph's totals.

    Raises:
        ContainerError: there are more than the bound ``INTERVALS``.
    """
    end = max((entry.active.end for entry in times), default=0.0)
    found = []
    count = math.ceil(end / interval_us - _ROUNDING)
    if count > limit("INTERVALS"):
        raise ContainerError(f"a frame of the schedule takes {end / 1e6:.3g} s: {beyond('INTERVALS')}")
    for number in range(count):
        start, stop = number * interval_us, min((number + 1) * interval_us, end)
        found.append(
            Interval(
                start_us=start,
                computing=sum(entry.compute.within(start, stop) for entry in times) / (stop - start),
                loaded_bytes=sum(_share(entry.load, start, stop) * entry.layer.loaded_bytes for entry in times),
                stored_bytes=sum(_share(entry.store, start, stop) * entry.layer.stored_bytes for entry in times),
            )
        )
    return tuple(found)


def _scaled(entry: LayerTimes, factor: float) -> LayerTimes:
    load, compute, store = (
        Span(span.start * factor, span.end * factor) for span in (entry.load, entry.compute, entry.store)
    )
    return LayerTimes(entry.layer, load, compute, store)


def _share(span: Span, start: float, stop: float) -> float:
    return span.within(start, stop) / span.length if span.length else 0.0
