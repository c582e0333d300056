"""Rows of a corpus for tests."""

from __future__ import annotations

from engine.chips.latency import Latency
from engine.compile.memory import Memory
from engine.compile.schedule import Schedule
from research.corpus import MeasuredRow, network_of_row


def row(channels: int, size: int, kernel: int, latency_us: float = 1.0) -> MeasuredRow:
    spec = {
        "in": {"data": [1, channels, size, size]},
        "layers": [{"op": "conv", "cout": channels, "k": kernel, "act": "relu"}] * 2,
    }
    return MeasuredRow(
        id=f"c{channels}_{size}_{kernel}",
        kind="layer",
        march="bayes-e",
        group="conv",
        optimize_level="O2",
        compile_mode="latency",
        core_num=1,
        spec=spec,
        latency_us=latency_us,
        ddr_bytes=1,
        loaded_bytes=1,
        stored_bytes=0,
        subgraphs=1,
    )


def schedule_of_row(row: MeasuredRow, latency: Latency, memory: Memory) -> Schedule | None:
    """The schedule of a row's network, or ``None`` where it is no chain or graph of known operators."""
    network = network_of_row(row, latency)
    return None if network is None else network.schedule(memory)
