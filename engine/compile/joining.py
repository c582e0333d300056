"""Reshapes of maps in NCHW: which make rows of what was a map, and which cut tokens that were one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from engine.compile.layers import Layer
from engine.compile.motion import Motion
from engine.ops.core.costs import CostKind

_MAP_RANK = 4
JOINED_BITS = frozenset({8, 16})
"""Bits of a map whose rows are joined on the BPU."""
_VIEWS = frozenset({Motion.VIEW, Motion.NONE})


def joins_rows(layer: Layer) -> bool:
    """Whether a reshape makes one row of the pixels of each channel of a map that was none of rows (NCHW)."""
    before, after = layer.input_shapes[0], layer.output_shape
    if layer.kind is not CostKind.RESHAPE or not layer.converted or len(before) != _MAP_RANK or before[0] > 1:
        return False
    views = layer.motion in _VIEWS and layer.output_bits in JOINED_BITS
    return views and min(before[1:]) > 1 and after[-1] == before[2] * before[3]


def lies_in_planes(layer: Layer, position: int, given: Layer | None) -> bool:
    """Whether a layer reads the planes of a map (NCHW): a product of two maps does, and what reads it in that order.

    Args:
        layer: behind a layout change.
        position: of its input.
        given: computes the map.
    """
    if layer.kind is CostKind.MATMUL:
        return True
    shape = () if given is None else given.output_shape
    turned = len(shape) == _MAP_RANK and (shape[0], shape[3], shape[1], shape[2])
    return bool(turned) and tuple(layer.input_shapes[position]) == turned


def becomes_cut(layer: Layer, readers: Mapping[str, Sequence[Layer]]) -> bool:
    """Whether a reshape and the transposition behind it make tokens of a map, which are cut into heads then."""
    turning = readers.get(layer.output, ())
    if layer.kind is not CostKind.RESHAPE or len(turning) != 1 or turning[0].kind is not CostKind.TRANSPOSE:
        return False
    cutting = readers.get(turning[0].output, ())
    return bool(cutting) and all(map(_cuts_tokens, cutting))


def _cuts_tokens(layer: Layer) -> bool:
    before, after = layer.input_shapes[0], layer.output_shape
    cuts = layer.kind is CostKind.RESHAPE and layer.motion is Motion.ELEMENTS
    return cuts and before[-1] == math.prod(after[2:]) and len(after) == _MAP_RANK


def joins_pixels(layer: Layer) -> bool:
    """Whether a reshape makes a row of the pixels of a map of one channel, which is a batch of single pixels to it.

    A column of pixels is one too.
    """
    before, after = layer.input_shapes[0], layer.output_shape
    if layer.kind is not CostKind.RESHAPE or len(before) != _MAP_RANK or before[0] > 1 or before[3] > 1:
        return False
    return layer.motion is Motion.ELEMENTS and before[1] > 1 and after[-1] == before[1] * before[2]


def restores_map(layer: Layer, makers: Mapping[str, Layer]) -> bool:
    """Whether tokens that were turned become a map (NCHW) by a reshape, which leaves all elements where they are."""
    turned = makers.get(layer.inputs[0])
    views = layer.kind is CostKind.RESHAPE and layer.motion is Motion.VIEW
    if not views or turned is None or turned.kind is not CostKind.TRANSPOSE or turned.motion is not Motion.NONE:
        return False
    before, after = layer.input_shapes[0], layer.output_shape
    return len(after) == _MAP_RANK and before[-1] == after[-1] * after[-2] and before[-2] == after[-3]


def joins_heads(layer: Layer, makers: Mapping[str, Layer], readers: Mapping[str, Sequence[Layer]]) -> bool:
    """Whether a transposition brings the heads that a product of two maps left side by side, for a reshape to join."""
    product, after = makers.get(layer.inputs[0]), readers.get(layer.output, ())
    before = layer.input_shapes[0]
    turns = layer.kind is CostKind.TRANSPOSE and layer.motion is Motion.ROWS and len(before) == _MAP_RANK
    if not turns or product is None or product.kind is not CostKind.MATMUL or len(product.inputs) == 1:
        return False
    swapped = (before[0], before[2], before[1], before[3]) == tuple(layer.output_shape)
    joins = all(each.kind is CostKind.RESHAPE and each.output_shape[-1] == before[1] * before[3] for each in after)
    return swapped and before[1] > 1 and bool(after) and joins


def multiplies_heads(layer: Layer) -> bool:
    """Whether a layer multiplies several matrices (heads) by a constant for each."""
    return layer.kind is CostKind.MATMUL and len(layer.inputs) == 1 and math.prod(layer.output_shape[:-2]) > 1
