"""What passes through DDR where pixels become channels, and channels pixels."""

from __future__ import annotations

import pytest

from engine.chips.latency import load_latency
from engine.compile.compiler import CompileOptions, memory_of
from engine.compile.folding import folded_bytes, unfolded_bytes
from engine.compile.layers import Layer, Overlap
from engine.compile.memory import Memory, relaid_bytes
from engine.compile.motion import Motion
from engine.compile.overheads import amounts
from engine.compile.schedule import InputTensor, schedule_layers
from engine.ops.core.costs import CostKind
from tests.engine.compile.layers import layer

Shape = tuple[int, ...]
UNFOLDING = load_latency("bayes-e").unfolding


def to_depth(shape: Shape) -> Layer:
    batch, height, width, channels = shape
    halved = (batch, height // 2, width // 2, 4 * channels)
    return layer(CostKind.TRANSPOSE, halved, shape, motion=Motion.FOLDED)


def focus(shape: Shape, parts: int = 4) -> list[Layer]:
    """Slices of rows, slices of columns of each, and the layer that joins them."""
    batch, height, width, channels = shape
    half, quarter = (batch, height // 2, width, channels), (batch, height // 2, width // 2, channels)

    def cut(name: str, source: str, before: Shape, after: Shape) -> Layer:
        one = layer(CostKind.MOVE, after, before)
        return one.model_copy(update={"name": name, "inputs": (source,), "output": name})

    found = [cut(f"r{row}", "x0", shape, half) for row in (0, 1)]
    found += [cut(f"p{part}", f"r{part % 2}", half, quarter) for part in range(parts)]
    joined = layer(CostKind.JOIN, (*quarter[:3], parts * channels), *(quarter,) * parts)
    return [*found, joined.model_copy(update={"inputs": tuple(f"p{part}" for part in range(parts))})]


@pytest.mark.parametrize(
    ("march", "shape", "depth", "slices"),
    [
        ("bayes-e", (1, 64, 64, 3), 122_880, 53_248),
        ("bayes-e", (1, 16, 640, 3), 245_760, 111_616),
        ("bayes", (1, 32, 96, 3), 97_536, 40_800),
    ],
)
def test_images_move_so_much_for_each_pixel_and_for_each_row_of_each_channel(
    march: str, shape: Shape, depth: int, slices: int
) -> None:
    """bayes-e: what slices store, and load, is the original's to the byte; of SpaceToDepth the sum of both is."""
    folding = load_latency(march).folding
    assert folding is not None
    assert folded_bytes([to_depth(shape)], folding) == {"y": depth}
    assert folded_bytes(focus(shape), folding) == {"y": slices}


def test_maps_of_more_channels_move_as_a_whole() -> None:
    folding = load_latency("bayes-e").folding
    assert folding is not None
    shape = (1, 32, 64, 32)
    assert folded_bytes([to_depth(shape)], folding) == {"y": 5 * 65_536}
    assert folded_bytes(focus(shape), folding) == {"y": 98_304}


def test_other_parts_that_are_joined_stay_on_the_chip() -> None:
    folding = load_latency("bayes-e").folding
    assert folding is not None
    shape = (1, 32, 64, 32)
    assert folded_bytes(focus(shape, parts=2), folding) == {}
    whole = focus(shape)
    strange = whole[-1].model_copy(update={"inputs": ("p0", "p1", "p2", "z")})
    assert folded_bytes([*whole[:-1], strange], folding) == {}


def test_pixels_become_channels_on_their_way_through_ddr_or_by_rows() -> None:
    shape = (1, 64, 64, 3)
    image = (InputTensor(name="x0", dtype="int8", shape=shape),)
    bayes, oldest = load_latency("bayes-e"), load_latency("bernoulli2")
    stored = schedule_layers("s", image, ("y",), (to_depth(shape),), memory_of(bayes, CompileOptions())).relaid
    assert stored == {"y": 122_880}
    assert schedule_layers("s", image, ("y",), (to_depth(shape),), memory_of(oldest, CompileOptions())).relaid == {}
    assert not list(amounts(to_depth(shape), Overlap.GROUPS, bayes))
    assert list(amounts(to_depth(shape), Overlap.ALL, oldest))


@pytest.mark.parametrize(
    ("shape", "block", "stored"),
    [
        ((72, 72, 8), 3, 4_644_864),
        ((72, 72, 4), 3, 4_644_864),
        ((36, 72, 8), 3, 1_327_104),
        ((36, 36, 8), 3, 663_552),
        ((39, 72, 8), 3, 1_437_696),
        ((96, 96, 3), 4, 16_515_072),
        ((48, 48, 8), 2, 55_296),
        ((24, 48, 8), 2, 27_648),
        ((96, 96, 3), 2, 73_728),
        ((192, 192, 1), 2, 294_912),
        ((64, 64, 16), 2, 196_608),
        ((128, 128, 4), 2, 131_072),
    ],
)
def test_blocks_of_pixels_made_of_channels_go_through_ddr(shape: tuple[int, int, int], block: int, stored: int) -> None:
    """What the original stores besides (bayes-e, O2): exact."""
    assert UNFOLDING is not None
    height, width, channels = shape
    before = (1, height // block, width // block, channels * block * block)
    turned = layer(CostKind.TRANSPOSE, (1, *shape), before, motion="blocks")
    assert unfolded_bytes(turned, UNFOLDING) == stored
    assert unfolded_bytes(turned.model_copy(update={"motion": Motion.ROWS}), UNFOLDING) == 0
    memory = Memory(1 << 20, 1 << 20, unfolding=UNFOLDING)
    assert relaid_bytes([turned], ["x0"], [], [], memory) == {"y": stored}
    assert relaid_bytes([turned], ["x0"], [], [], Memory(1 << 20, 1 << 20)) == {}


def test_larger_maps_of_blocks_are_no_more_than_eight_tiles() -> None:
    """96 x 96 into blocks of three: 87,035,904 bytes in the original, 8.2 times a vector per pixel."""
    assert UNFOLDING is not None
    turned = layer(CostKind.TRANSPOSE, (1, 288, 288, 3), (1, 96, 96, 27), motion="blocks")
    assert unfolded_bytes(turned, UNFOLDING) == pytest.approx(87_035_904, rel=0.03)
