"""Softmax over the columns of a map that only products read: the map is turned first, and its columns are channels.

A product of two maps reads matrices row by row; what a softmax gives it would be turned behind the softmax. The
original turns what the softmax reads instead, so that its maximum and its sum are those of channels.
``docs/evidence/latency.md`` has the evidence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from engine.compile.layers import Layer
from engine.ops.core.costs import CostKind

_MAP_RANK = 4
_PLANES = (0, 3, 1, 2)
"""Permutation that turns a map (NHWC) into its planes."""

Readers = Mapping[str, Sequence[Layer]]


def turned_softmaxes(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """``layers`` of a subgraph, where each softmax that only products read runs over the channels of a turned map.

    Args:
        layers: in running order, shapes of maps NHWC.
    """
    readers: dict[str, list[Layer]] = defaultdict(list)
    for layer in layers:
        for name in dict.fromkeys(layer.inputs):
            readers[name].append(layer)
    changed: dict[str, Layer] = {}
    for layer in layers:
        if layer.name not in changed and _is_largest_of_row(layer):
            changed.update({each.name: each for each in _turned(layer, readers)})
    return tuple(changed.get(layer.name, layer) for layer in layers)


def _is_largest_of_row(layer: Layer) -> bool:
    """Whether a layer takes the maximum of each row of pixels, channel by channel."""
    before, after = layer.input_shapes[0], layer.output_shape
    if layer.kind is not CostKind.REDUCE or not layer.largest or len(before) != _MAP_RANK:
        return False
    return tuple(after) == (*before[:2], 1, before[3])


def _turned(largest: Layer, readers: Readers) -> Iterator[Layer]:
    """The layers of a softmax that begins with ``largest``, turned, and those that read it; none of another one."""
    steps = _softmax(largest, readers)
    if not steps:
        return
    *_, divided = steps
    products = readers[divided.output]
    positions = {each.name: each.inputs.index(divided.output) for each in products}
    if divided.leaves or not products or not all(positions[each.name] in each.converted for each in products):
        return
    for step in steps:
        change: dict[str, object] = {
            "input_shapes": tuple(map(_in_planes, step.input_shapes)),
            "output_shape": _in_planes(step.output_shape),
            "planar": False,
            "converted": (),
            "rearranged": (),
        }
        if step is largest and 0 not in largest.converted:
            change |= {"converted": (0,), "rearranged": (0,)}
        yield step.model_copy(update=change)
    for each in products:
        left = {
            field: tuple(position for position in getattr(each, field) if position != positions[each.name])
            for field in ("converted", "rearranged")
        }
        yield each.model_copy(update=left)


def _softmax(largest: Layer, readers: Readers) -> tuple[Layer, ...]:
    """Maximum, difference, table, sum, table and product of a softmax; empty where ``largest`` begins none."""
    less = _only(readers[largest.output], CostKind.ADD)
    grown = None if less is None else _only(readers[less.output], CostKind.LUT)
    if less is None or grown is None or largest.inputs[0] not in less.inputs:
        return ()
    reading = readers[grown.output]
    both = {each.kind: each for each in reading}
    added, divided = both.get(CostKind.REDUCE), both.get(CostKind.MUL)
    if added is None or divided is None or len(reading) > len((added, divided)):
        return ()
    inverse = _only(readers[added.output], CostKind.LUT)
    if inverse is None or added.output_shape != largest.output_shape or inverse.output not in divided.inputs:
        return ()
    return largest, less, grown, added, inverse, divided


def _only(readers: Sequence[Layer], kind: CostKind) -> Layer | None:
    """The only one of ``readers``, if it is of ``kind``."""
    return readers[0] if len(readers) == 1 and readers[0].kind is kind else None


def _in_planes(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in _PLANES)
