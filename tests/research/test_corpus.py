"""Rows of the corpus become the schedules that the compiler would make."""

from __future__ import annotations

from engine.chips.latency import load_latency
from engine.compile.compiler import CompileOptions, memory_of
from engine.compile.memory import Memory
from engine.perf.performance import estimate_subgraph
from research.corpus import network_of_row
from tests.research.rows import row, schedule_of_row


def test_nv12_images_are_half_the_bytes_of_packed_ones() -> None:
    """224 x 224: rows of three bytes per pixel are padded to 256 pixels, the planes of NV12 are dense."""
    latency = load_latency("bayes-e")
    loaded = {}
    for kind in ("rgb", "nv12"):
        image = row(3, 224, 3).model_copy(update={"spec": {**row(3, 224, 3).spec, "in_type": kind}})
        schedule = schedule_of_row(image, latency, memory_of(latency, CompileOptions()))
        assert schedule is not None
        loaded[kind] = estimate_subgraph(schedule, latency).loaded_bytes
    assert loaded["rgb"] - loaded["nv12"] == 224 * 256 * 3 - 224 * 224 * 3 // 2


def test_unknown_operators_are_left_out() -> None:
    unknown = row(8, 8, 1).model_copy(update={"spec": {"in": {"d": [1, 8, 8, 8]}, "layers": [{"op": "topk"}]}})
    assert network_of_row(unknown, load_latency("bayes-e")) is None


def test_dilation_is_read() -> None:
    dilated = row(8, 16, 3).model_copy(
        update={"spec": {"in": {"d": [1, 8, 16, 16]}, "layers": [{"op": "conv", "cout": 8, "k": 3, "d": 2}]}}
    )
    schedule = schedule_of_row(dilated, load_latency("bayes-e"), Memory(0, 0))
    assert schedule is not None
    assert schedule.layers[-1].dilations == (2, 2)
