"""What it takes to turn tokens of attention into maps and back, which no layer shows by itself.

Attention over areas of a map cuts its pixels into areas, each of which is a map of one row whose channels the tokens
become. ``docs/evidence/latency.md`` has what was asked.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from engine.chips.latency.overhead import Overhead
from engine.compile.layers import Layer
from engine.compile.motion import Motion
from engine.ops.core.costs import CostKind

Amount = tuple[Overhead, float]
"""An overhead and how often it occurs, as :mod:`engine.compile.overheads` has them."""

_MAP_RANK = 4


def cut_tokens(layers: Sequence[Layer]) -> Iterator[tuple[Layer, tuple[Amount, ...]]]:
    """Each layer of a subgraph, in running order, and the overheads that it has for the sake of the one before it.

    A reshape that only cuts tokens for layers behind it moves nothing itself; they are turned once for all of these.
    """
    makers = {layer.output: layer for layer in layers}
    turned: dict[str, list[Layer]] = {}
    for layer in layers:
        for position in layer.rearranged:
            if turns_tokens(layer, position, makers):
                turned.setdefault(layer.inputs[position], []).append(layer)
    cut: set[str] = set()
    for layer in layers:
        as_it_runs = layer.model_copy(update={"motion": Motion.NONE}) if layer.output in turned else layer
        first = [name for name, readers in turned.items() if readers[0] is layer]
        yield as_it_runs, (*_tokens(layer, first), *_amounts(layer, makers, cut))
        cut.update(layer.inputs if layer.kind is CostKind.MOVE else ())


def turns_tokens(layer: Layer, position: int, makers: Mapping[str, Layer]) -> bool:
    """Whether a layout change in front of a layer turns tokens, which lie in rows, into a map whose channels they are.

    Args:
        layer: reads the map.
        position: of its input.
        makers: layers of the subgraph by what they compute.
    """
    maker = makers.get(layer.inputs[position])
    if maker is None or maker.kind is not CostKind.RESHAPE or position not in layer.rearranged:
        return False
    if not _is_of_tokens(maker):
        return False
    batch, count, heads, width = maker.output_shape
    return tuple(layer.input_shapes[position]) == (batch, width, count, heads)


def _is_of_tokens(layer: Layer) -> bool:
    """Whether a reshape cuts tokens into heads, or a batch, of a map of one row each."""
    return len(layer.input_shapes[0]) < _MAP_RANK == len(layer.output_shape) and layer.input_shapes[0][0] == 1


def _tokens(layer: Layer, names: Sequence[str]) -> Iterator[Amount]:
    """Tokens, by name, that become channels in front of ``layer``."""
    for name, shape in zip(layer.inputs, layer.input_shapes, strict=True):
        if name in names:
            yield Overhead.TOKENS, _kilobytes(shape, layer.input_bits) * (1 + 1 / shape[-1]) / 2


def _amounts(layer: Layer, makers: Mapping[str, Layer], cut: Collection[str]) -> Iterator[Amount]:
    """Rows of single channels that are cut, once for all parts (``cut``: of which there were some)."""
    cuts = layer.kind is CostKind.MOVE and layer.motion is not Motion.NONE and layer.inputs[0] not in cut
    if cuts and _is_single(layer.input_shapes[0]):
        yield Overhead.SLICED, math.prod(layer.input_shapes[0][:-2]) / 1e3
    maker = makers.get(layer.inputs[0]) if layer.inputs else None
    is_part = maker is not None and maker.kind is CostKind.MOVE and _is_single(maker.output_shape)
    if is_part and layer.kind is CostKind.RESHAPE and not _is_single(layer.input_shapes[0]):
        yield Overhead.SINGLE, _kilobytes(layer.output_shape, layer.output_bits)


def _is_single(shape: Sequence[int]) -> bool:
    """Whether a map has one channel."""
    return len(shape) == _MAP_RANK and shape[-1] == 1


def _kilobytes(shape: Sequence[int], bits: int) -> float:
    return math.prod(shape) * bits / 8e3
