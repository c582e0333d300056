"""Rows of a corpus for tests."""

from __future__ import annotations

from research.corpus import MeasuredRow


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
