"""Traffic and computing time of layers that the corpus measured by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from engine.compile.cost import layer_costs
from engine.compile.layers import Layer
from engine.compile.memory import Memory
from engine.compile.schedule import InputTensor, Schedule, schedule_layers
from engine.march.latency import load_latency
from engine.ops.core.costs import CostKind

MAP = (1, 28, 28, 64)


def alone(
    kind: CostKind, shape: tuple[int, ...], *inputs: tuple[int, ...], inner: bool = True, **details: Any
) -> Schedule:
    """A subgraph of one layer."""
    names = tuple(f"x{index}" for index in range(len(inputs)))
    layer = Layer(
        name="y", op_type=kind, kind=kind, inputs=names, output="y", input_shapes=inputs, output_shape=shape, **details
    )
    tensors = tuple(
        InputTensor(name=name, dtype="int8", shape=size, inner=inner) for name, size in zip(names, inputs, strict=True)
    )
    return schedule_layers("s", tensors, ("y",), (layer,), Memory(1 << 20, 1 << 20))


def loaded(march: str, schedule: Schedule) -> int:
    return layer_costs(schedule, load_latency(march))[0].traffic.loaded


@pytest.mark.parametrize(
    ("march", "table", "product", "total"), [("bayes-e", 896, 4096, 2176), ("bayes", 1024, 8192, 4352)]
)
def test_parameters_are_those_of_the_corpus(march: str, table: int, product: int, total: int) -> None:
    """``op_act_*``, ``bin_mul_*`` and ``opx4_mul_*`` beside ``opx4_add_*``, at 28 x 28 x 64."""
    nothing = loaded(march, alone(CostKind.MOVE, MAP, MAP))
    assert loaded(march, alone(CostKind.LUT, MAP, MAP, parameter_bytes=256)) - nothing == table
    both = loaded(march, alone(CostKind.JOIN, MAP, MAP, MAP))
    assert loaded(march, alone(CostKind.MUL, MAP, MAP, MAP)) - both == product
    assert loaded(march, alone(CostKind.ADD, MAP, MAP, MAP)) - both == total


@pytest.mark.parametrize(("shape", "more"), [((1, 1, 1, 64), 1024), ((1, 28, 28, 1), 0)])
def test_averages_over_all_pixels_load_parameters(shape: tuple[int, ...], more: int) -> None:
    nothing = loaded("bayes-e", alone(CostKind.MOVE, shape, MAP))
    assert loaded("bayes-e", alone(CostKind.REDUCE, shape, MAP)) - nothing == more


def test_products_of_bernoulli2_load_258_bytes_per_channel() -> None:
    one = loaded("bernoulli2", alone(CostKind.MUL, MAP, MAP, MAP))
    assert one - loaded("bernoulli2", alone(CostKind.JOIN, MAP, MAP, MAP)) == 258 * 64


def test_small_tables_of_bernoulli2_load_their_program_and_large_ones_nothing() -> None:
    small = (1, 8, 8, 16)
    more = loaded("bernoulli2", alone(CostKind.LUT, small, small, parameter_bytes=256))
    assert more - loaded("bernoulli2", alone(CostKind.MOVE, small, small)) == 29184
    table = alone(CostKind.LUT, MAP, MAP, parameter_bytes=256)
    assert loaded("bernoulli2", table) == loaded("bernoulli2", alone(CostKind.MOVE, MAP, MAP))


def test_dilated_layers_run_on_each_phase_apart() -> None:
    """28 x 28, dilation 2: four maps of 14 x 14, each 16 x 16 on bayes-e; dilation 14: 196 of 2 x 2, each 4 x 8."""

    def computing(step: int) -> float:
        one = alone(CostKind.CONV, MAP, MAP, kernel=(3, 3), dilations=(step, step), macs=1)
        return layer_costs(one, load_latency("bayes-e"))[0].compute_us

    times = [computing(step) for step in (1, 2, 14)]
    assert times[1] / times[0] == pytest.approx(4 * 16 * 16 / (28 * 32))
    assert times[2] / times[0] == pytest.approx(14 * 14 * 4 * 8 / (28 * 32))


def test_only_what_enters_the_model_is_brought_into_the_layout_of_the_array() -> None:
    """bernoulli2: 28 x 28 x 64 as the user has it takes some 38 us more to load, an image nothing."""
    latency = load_latency("bernoulli2")
    entering = layer_costs(alone(CostKind.CONV, MAP, MAP, inner=False), latency)[0]
    assert 30 < entering.arrange_us < 50
    assert layer_costs(alone(CostKind.CONV, MAP, MAP), latency)[0].arrange_us == 0
    image = (1, 64, 64, 3)
    assert layer_costs(alone(CostKind.CONV, image, image, inner=False), latency)[0].arrange_us == 0


@pytest.mark.parametrize(("march", "channels"), [("bayes-e", 16), ("bayes", 16), ("bernoulli2", 8)])
def test_int32_results_that_stay_nhwc_pad_their_channels_and_not_their_rows(march: str, channels: int) -> None:
    """``tail_softmax_c``: 28 x 28 x 64 x 4 bytes; SSD heads of 9 and 12 channels."""
    latency = load_latency(march)
    stored = {
        shape: layer_costs(alone(CostKind.CONV, shape, MAP, output_bits=32), latency)[0].traffic.stored
        for shape in (MAP, (1, 16, 16, 9))
    }
    assert stored == {MAP: 28 * 28 * 64 * 4, (1, 16, 16, 9): 16 * 16 * (16 // channels * channels) * 4}
    planar = layer_costs(alone(CostKind.CONV, MAP, MAP, output_bits=32, planar=True), latency)[0]
    assert planar.traffic.stored == 28 * 32 * 64 * 4
