"""How often two cores wait for each other."""

from __future__ import annotations

import pytest

from engine.compile.cores import waits_of
from engine.compile.layers import MAXIMUM, Layer, Overlap
from engine.compile.schedule import InputTensor, Schedule
from engine.ops.core.costs import CostKind
from tests.engine.compile.layers import layer

MAP = (1, 16, 16, 16)


def _schedule(overlap: Overlap, *layers: Layer, entering: tuple[int, ...] = MAP) -> Schedule:
    inputs = (InputTensor(name="x0", dtype="int8", shape=entering),)
    groups = tuple((position,) for position in range(len(layers))) if overlap is Overlap.NONE else ((0,),)
    return Schedule(name="s", inputs=inputs, outputs=("y",), layers=layers, groups=groups, overlap=overlap, cores=2)


def test_one_core_waits_for_nothing() -> None:
    schedule = _schedule(Overlap.NONE, layer(CostKind.CONV, MAP, MAP, leaves=True))
    assert waits_of(schedule.on_cores(1), [False]) == 0


@pytest.mark.parametrize(
    ("entering", "leaving", "waits"),
    [
        (MAP, {"output_bits": 32, "leaves": True, "planar": True}, 3),
        ((1, 16, 16, 3), {"output_bits": 32, "leaves": True, "planar": True}, 2),
        (MAP, {"leaves": True, "planar": True}, 5),
        (MAP, {}, 1),
    ],
)
def test_layers_that_run_alone_wait_where_maps_come_and_go(
    entering: tuple[int, ...], leaving: dict[str, object], waits: int
) -> None:
    """Asked (``two``): a convolution of 16 x 16 x 16 takes 315.5 us on two cores, of three channels 214.1."""
    found = _schedule(Overlap.NONE, layer(CostKind.CONV, MAP, entering, **leaving), entering=entering)
    assert waits_of(found, [False]) == waits


def test_layers_that_run_alone_wait_after_each() -> None:
    layers = [layer(CostKind.CONV, MAP, MAP), layer(CostKind.POOL, MAP, MAP, kernel=(3, 3), padded=True)]
    layers[1] = layers[1].model_copy(update={"op_type": MAXIMUM})
    assert waits_of(_schedule(Overlap.NONE, *layers), [False, False]) == 1 + 1 + 6


def test_fused_layers_wait_where_maps_pass_through_ddr() -> None:
    """Asked (``two``): tables of 32 x 32 x 32 and products of two maps of 16 channels wait once more."""
    first = layer(CostKind.CONV, MAP, MAP).model_copy(update={"output": "a"})

    def behind(kind: CostKind, *shapes: tuple[int, ...], **options: object) -> Schedule:
        found = layer(kind, *shapes, **options)
        return _schedule(Overlap.ALL, first, found.model_copy(update={"inputs": ("a",) * len(found.inputs)}))

    assert waits_of(behind(CostKind.CONV, MAP, MAP), [False, False]) == 0
    assert waits_of(behind(CostKind.LUT, MAP, MAP), [False, True]) == 1
    assert waits_of(behind(CostKind.MUL, MAP, MAP, MAP), [False, False]) == 1
