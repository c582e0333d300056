"""What layers take at O0 on bernoulli2 besides their maps, against times and bytes of single branches."""

from __future__ import annotations

from typing import Any

import pytest

from engine.chips.latency import load_latency
from engine.compile.cost import layer_costs, moving_us
from engine.compile.layers import MAXIMUM, Layer, Overlap
from engine.compile.rowwise import besides, takes_steps
from engine.compile.schedule import InputTensor, Schedule
from engine.ops.core.costs import CostKind

LATENCY = load_latency("bernoulli2")
WEIGHTS = {"macs": 1, "weight_bytes": 256, "parameter_bytes": 128}


def layer(name: str, kind: CostKind, shape: tuple[int, ...], source: str, read: tuple[int, ...], **more: Any) -> Layer:
    names, shapes = (source, *more.pop("others", ())), (read, *more.pop("other_shapes", ()))
    op_type = more.pop("op_type", kind.value)
    return Layer(
        name=name,
        op_type=op_type,
        kind=kind,
        inputs=names,
        output=name,
        input_shapes=shapes,
        output_shape=shape,
        **more,
    )


def chain(first: tuple[int, ...], *layers: Layer) -> Schedule:
    """A map that enters a convolution of one tap, and what follows."""
    entering = layer("a", CostKind.CONV, first, "x", first, **WEIGHTS)
    every = (entering, *layers)
    return Schedule(
        name="s",
        inputs=(InputTensor(name="x", dtype="int8", shape=first),),
        outputs=tuple(each.output for each in every if each.leaves),
        layers=every,
        groups=tuple((position,) for position in range(len(every))),
        overlap=Overlap.NONE,
        by_layer=True,
        spilled=tuple(each.output for each in every if not each.leaves),
    )


def taken_us(schedule: Schedule, name: str) -> float:
    costs = dict(zip((each.name for each in schedule.layers), layer_costs(schedule, LATENCY), strict=True))
    cost = costs[name]
    return cost.working_us + cost.arrange_us + cost.overhead_us + moving_us(cost, LATENCY.fitted)


def end(source: str, read: tuple[int, ...]) -> Layer:
    return layer("z", CostKind.CONV, read, source, read, output_bits=32, leaves=True, planar=True, **WEIGHTS)


@pytest.mark.parametrize(
    ("kind", "read", "shape", "more", "latency_us"),
    [
        (CostKind.POOL, (1, 12, 8, 16), (1, 12, 8, 16), {"op_type": MAXIMUM, "kernel": (3, 3), "padded": True}, 15.4),
        (CostKind.POOL, (1, 12, 8, 16), (1, 12, 8, 16), {"op_type": MAXIMUM, "kernel": (5, 5), "padded": True}, 37.0),
        (CostKind.POOL, (1, 12, 8, 48), (1, 12, 8, 48), {"op_type": MAXIMUM, "kernel": (9, 9), "padded": True}, 257.0),
        (CostKind.CONV, (1, 8, 8, 16), (1, 8, 8, 16), WEIGHTS | {"kernel": (3, 3), "dilations": (2, 2)}, 18.7),
        (CostKind.TRANSPOSED, (1, 8, 8, 16), (1, 16, 16, 16), WEIGHTS | {"kernel": (2, 2), "strides": (2, 2)}, 6.1),
        (CostKind.LUT, (1, 8, 8, 16), (1, 8, 8, 16), {}, 53.2),
        (CostKind.CONV, (1, 16, 16, 8), (1, 16, 16, 1), WEIGHTS, 2.5),
    ],
)
def test_layers_that_take_steps_and_phases(
    kind: CostKind, read: tuple[int, ...], shape: tuple[int, ...], more: dict[str, Any], latency_us: float
) -> None:
    """Asked (``bk``, ``bern2``): computing and transfers of the layer, all its steps together."""
    inner = layer("b", kind, shape, "a", read, **more)
    assert taken_us(chain(read, inner, end("b", shape)), "b") == pytest.approx(latency_us, rel=0.15)


def test_depthwise_layers_read_rows_of_whole_vectors() -> None:
    """Asked: a branch of 16 x 16 x 8 in steps stores 23552 bytes, 6656 more than its maps; of 12 x 8 x 16 27648."""
    schedule = chain((1, 16, 16, 8))
    rows = LATENCY.alone_by_rows
    assert rows is not None
    made = {each.output: each for each in schedule.layers}
    stepped = layer(
        "b", CostKind.DEPTHWISE, (1, 8, 8, 8), "a", (1, 16, 16, 8), kernel=(3, 3), strides=(2, 2), **WEIGHTS
    )
    assert besides(stepped, made, {"x"}, {"a"}, rows).stored == 6656
    whole = layer("b", CostKind.DEPTHWISE, (1, 12, 8, 16), "a", (1, 12, 8, 16), kernel=(5, 5), **WEIGHTS)
    assert besides(whole, made, {"x"}, {"a"}, rows).stored == 3072


@pytest.mark.parametrize(
    ("shape", "latency_us"), [((1, 8, 8, 16), 6.6), ((1, 16, 16, 16), 10.6), ((1, 13, 17, 16), 10.4)]
)
def test_maps_of_bytes_that_leave_channel_by_channel_are_turned(shape: tuple[int, ...], latency_us: float) -> None:
    """Asked (``bpl``): a convolution in front of a mean that the CPU takes over channels."""
    leaving = layer("b", CostKind.CONV, shape, "a", shape, planar=True, leaves=True, **WEIGHTS)
    assert taken_us(chain(shape, leaving), "b") == pytest.approx(latency_us, rel=0.3)


def test_products_with_a_pixel_wait_for_rows_of_maps_inside() -> None:
    """Asked: 16 x 16 x 8 inside take 5.3 us, what enters is arranged instead."""
    shape, pixel = (1, 16, 16, 8), (1, 1, 1, 8)
    rows = LATENCY.alone_by_rows
    assert rows is not None
    gate = layer("b", CostKind.MUL, shape, "a", shape, others=("p",), other_shapes=(pixel,))
    made = {"a": layer("a", CostKind.CONV, shape, "x", shape, **WEIGHTS)}
    inside = besides(gate, made, {"x", "p"}, {"a", "p"}, rows).wait_us
    entering = besides(gate, {}, {"a", "p"}, {"a", "p"}, rows).wait_us
    assert inside == pytest.approx(16 * rows.gate_row_us)
    assert entering == pytest.approx(rows.entering_us)


def test_only_maxima_in_steps_of_one_pixel_take_steps() -> None:
    pool = layer(
        "b", CostKind.POOL, (1, 8, 8, 16), "a", (1, 16, 16, 16), op_type=MAXIMUM, kernel=(3, 3), strides=(2, 2)
    )
    assert not takes_steps(pool)
    assert takes_steps(pool.model_copy(update={"strides": (1, 1)}))
