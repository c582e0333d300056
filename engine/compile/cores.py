"""How often cores that share a frame wait for each other (bernoulli2, ``core_num`` 2).

Each core computes its part of the rows of every layer. They wait between groups of layers, and wherever a map goes
through DDR on its way from one layer to the next: what one core stored is loaded by the other.
``docs/evidence/latency.md`` has the evidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.compile.layers import Layer, Overlap
from engine.compile.schedule import Schedule
from engine.compile.sizes import IMAGE_CHANNELS
from engine.ops.core.costs import CostKind

_NARROW_BITS = 8
_ENTERING, _LEAVING, _TURNED = 1, 2, 2
"""Waits of layers of which each runs by itself: for the arrangement of a map that enters, for a map that leaves, and
for bytes of it that leave channel by channel besides.
"""
_MAXIMUM_ALONE = 6
"""Waits of a maximum of windows that overlap, at O0."""


def waits_of(schedule: Schedule, through_ddr: Sequence[bool]) -> int:
    """Waits of all cores for each other in a frame; 0 of one core.

    Args:
        schedule: of a subgraph.
        through_ddr: per layer, whether it loads a map that was stored within the subgraph.
    """
    if schedule.cores == 1:
        return 0
    between = len(schedule.groups) - 1
    if schedule.overlap is Overlap.NONE:
        products = {name for each in schedule.layers if _is_product(each) for name in each.inputs}
        entering = sum(each.name not in products and _is_large(each.shape) for each in schedule.inputs)
        leaving = sum(_leaving(each) for each in schedule.layers if each.leaves and not _is_product(each))
        return (
            between + _ENTERING * entering + leaving + _MAXIMUM_ALONE * sum(each.overlaps for each in schedule.layers)
        )
    tables = (each.kind is CostKind.LUT for each in schedule.layers)
    looked_up = sum(passes and table for passes, table in zip(through_ddr, tables, strict=True))
    return between + looked_up + sum(map(_is_shared, schedule.layers))


def _is_product(layer: Layer) -> bool:
    """Whether a layer is a product of two maps, matrix by matrix, which one core computes."""
    return layer.kind is CostKind.MATMUL and len(layer.inputs) > 1


def _is_large(shape: Sequence[int]) -> bool:
    """Whether a map is neither an image of few channels nor a single pixel."""
    return shape[-1] > IMAGE_CHANNELS and math.prod(shape[:-1]) > 1


def _leaving(layer: Layer) -> int:
    """Waits for a result that leaves; a single pixel, which one core computes, waits for nothing."""
    if math.prod(layer.output_shape[:-1]) == 1:
        return 0
    return _LEAVING + _TURNED * (layer.planar and layer.output_bits == _NARROW_BITS)


def _is_shared(layer: Layer) -> bool:
    """Whether each core needs what the other stored: maxima of windows that overlap, products of two maps, and tables
    that leave channel by channel as bytes.
    """
    if layer.overlaps:
        return True
    maps = len(layer.inputs) > 1 and len(set(layer.input_shapes)) == 1
    if layer.kind is CostKind.MUL and maps:
        return _is_large(layer.output_shape)
    turned = layer.leaves and layer.planar and layer.output_bits == _NARROW_BITS
    return layer.kind is CostKind.LUT and turned and _is_large(layer.output_shape)
