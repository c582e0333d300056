"""What attention over areas of a map takes to turn its tokens into maps."""

from __future__ import annotations

import pytest

from engine.chips.latency import load_latency
from engine.chips.latency.overhead import Overhead
from engine.compile.cost import layer_costs
from engine.compile.layers import Layer
from engine.compile.memory import Memory
from engine.compile.motion import Motion
from engine.compile.schedule import InputTensor, schedule_layers
from engine.compile.tokens import cut_tokens, turns_tokens
from engine.ops.core.costs import CostKind

AMPLE = Memory(1 << 20, 1 << 20)


def areas(heads: int, readers: int = 1, motion: Motion = Motion.VIEW) -> tuple[Layer, ...]:
    """64 tokens of 96 that are cut into four areas, and slices of the maps that these become."""
    width = 96 // heads
    cut = Layer(
        name="cut",
        op_type="Reshape",
        kind=CostKind.RESHAPE,
        inputs=("tokens",),
        output="cut",
        input_shapes=((1, 64, 96),),
        output_shape=(4, 16, heads, width),
        motion=motion,
    )
    slices = (
        Layer(
            name=f"slice{index}",
            op_type="Slice",
            kind=CostKind.MOVE,
            inputs=("cut",),
            output=f"slice{index}",
            input_shapes=((4, width, 16, heads),),
            output_shape=(4, 32 // heads, 16, heads),
            rearranged=(0,),
        )
        for index in range(readers)
    )
    return cut, *slices


def found(layers: tuple[Layer, ...]) -> dict[str, dict[Overhead, float]]:
    return {layer.name: dict(amounts) for layer, amounts in cut_tokens(layers)}


def test_tokens_are_turned_once_for_all_that_read_them() -> None:
    amounts = found(areas(1, readers=3))
    assert amounts["slice0"][Overhead.TOKENS] == pytest.approx(6.144)
    assert Overhead.TOKENS not in amounts["slice1"] | amounts["slice2"]


def test_of_several_heads_half_is_moved_together() -> None:
    assert found(areas(2))["slice0"][Overhead.TOKENS] == pytest.approx(6.144 * 3 / 4)


def test_the_reshape_that_cuts_them_moves_nothing_itself() -> None:
    cut, _ = cut_tokens(areas(2, motion=Motion.ELEMENTS))
    assert cut[0].motion is Motion.NONE


def test_other_maps_are_no_tokens() -> None:
    """What is cut into rows of a map whose channels are others' (1, 4, 256 into 16 maps of 8 x 8)."""
    cut, reader = areas(1)
    makers = {cut.output: cut}
    assert turns_tokens(reader, 0, makers)
    other = reader.model_copy(update={"input_shapes": ((4, 16, 96, 1),)})
    assert not turns_tokens(other, 0, makers)
    assert not turns_tokens(reader.model_copy(update={"rearranged": ()}), 0, makers)


def test_maps_of_one_channel_are_cut_row_by_row_and_become_rows_element_by_element() -> None:
    slice_ = areas(1)[1]
    rows = slice_.model_copy(
        update={
            "name": "rows",
            "output": "rows",
            "kind": CostKind.RESHAPE,
            "inputs": ("slice0",),
            "input_shapes": ((4, 16, 1, 32),),
            "output_shape": (1, 8, 8, 32),
            "rearranged": (),
        }
    )
    amounts = found((areas(1)[0], slice_, rows))
    assert amounts["slice0"][Overhead.SLICED] == pytest.approx(0.384)
    assert amounts["rows"] == pytest.approx({Overhead.SINGLE: 2.048})


def test_sixty_four_tokens_of_96_take_some_eighty_microseconds() -> None:
    """Asked on bayes-e: 62 us in front of a Split and 22 behind the convolution; on bayes 24."""
    for march, least, most in (("bayes-e", 80, 105), ("bayes", 20, 40)):
        latency, layers = load_latency(march), areas(1)
        inputs = (InputTensor(name="tokens", dtype="int8", shape=(1, 64, 96), inner=True),)
        schedule = schedule_layers("s", inputs, ("slice0",), layers, AMPLE)
        assert least < sum(cost.overhead_us for cost in layer_costs(schedule, latency)) < most
