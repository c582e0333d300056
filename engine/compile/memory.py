"""Which feature maps of a subgraph stay on the chip, and what that costs in DDR traffic."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.compile.layers import Layer, LayerKind
from engine.compile.packing import round_up
from engine.march.latency import RowPadding

_NEVER = 1 << 60


def spilled_tensors(layers: Sequence[Layer], outputs: Sequence[str], capacity: int) -> tuple[str, ...]:
    """Feature maps that do not fit on the chip and go through DDR.

    Layers run in order. A map takes its bytes from the layer that computes it to the last one that reads it; where the
    maps alive together exceed ``capacity`` those whose next use is farthest go out (Belady's rule).

    Args:
        layers: in running order.
        outputs: tensors that leave the subgraph; they are streamed out while they are computed.
        capacity: bytes for feature maps; 0 sends every map through DDR.
    """
    uses = _uses(layers)
    alive: dict[str, int] = {}
    spilled: dict[str, None] = {}
    for position, layer in enumerate(layers):
        if uses.get(layer.output) and not _is_view(layer):
            alive[layer.output] = activation_bytes(layer.output_shape, layer.output_bits)
        while sum(alive.values()) > capacity:
            victim = max(alive, key=lambda name: (_next_use(uses[name], position), alive[name], name))
            del alive[victim]
            spilled[victim] = None
        alive = {name: size for name, size in alive.items() if _next_use(uses[name], position) < _NEVER}
    leaving = set(outputs)
    return tuple(name for name in spilled if name not in leaving)


def activation_bytes(shape: Sequence[int], bits: int) -> int:
    """Bytes of a feature map on the chip: rows padded to 8 pixels, channels to 8 (NHWC)."""
    if len(shape) != 4:
        return math.prod(shape) * bits // 8
    batch, height, width, channels = shape
    return batch * height * round_up(width, 8) * round_up(channels, 8) * bits // 8


def ddr_bytes(shape: Sequence[int], bits: int, padding: RowPadding) -> int:
    """Bytes of a tensor in DDR: rows padded to blocks of pixels (NHWC)."""
    if len(shape) != 4:
        return math.prod(shape) * bits // 8
    batch, height, width, channels = shape
    return batch * height * row_width(width, padding) * round_up(channels, padding.channels) * bits // 8


def row_width(width: int, padding: RowPadding) -> int:
    """Pixels of a row in DDR: whole blocks, and a rest that is padded to a power of two."""
    blocks, rest = divmod(width, padding.block)
    tail = max(padding.minimum, 1 << (rest - 1).bit_length()) if rest else 0
    return blocks * padding.block + min(tail, max(padding.block, padding.minimum))


def _uses(layers: Sequence[Layer]) -> dict[str, list[int]]:
    uses: dict[str, list[int]] = {}
    for position, layer in enumerate(layers):
        for name in layer.inputs:
            uses.setdefault(name, []).append(position)
    return uses


def _next_use(uses: Sequence[int], position: int) -> int:
    return next((use for use in uses if use > position), _NEVER)


def _is_view(layer: Layer) -> bool:
    """Whether the layer's output is its inputs at another address (Concat, Slice, Reshape): nothing new is held."""
    return layer.kind is LayerKind.MOVE
