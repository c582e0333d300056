"""Tiles: which rows of every feature map are worked on at a time, and the model that runs tile by tile.

The layers of a fused group run row by row together. A tile is a band of rows of what the group leaves to others; the
rows that its layers need follow from their windows backwards to the group's inputs. Rows that two tiles need (halos)
are computed twice; rows beyond a map's border are the layer's own padding, which only the first and last tiles have.

:func:`tiled_model` writes the tiles out as a graph (slice, compute, concatenate), which the simulator runs. Its outputs
are those of the quantised model bit for bit, because no operator that is tiled looks at more than its rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.compile.partition import Segment
from engine.compile.schedule import Schedule
from engine.compile.sizes import activation_bytes
from engine.ir import shape_of
from engine.ops.core.rows import ROW_AXIS, Rows
from engine.ops.registry import bpu_operator
from engine.terms import Device


@dataclass(frozen=True)
class TiledRun:
    """Layers that are tiled together.

    Attributes:
        nodes: in running order.
        exits: tensors that others read.
    """

    nodes: tuple[ir.Node, ...]
    exits: tuple[ir.Value, ...]

    @property
    def height(self) -> int:
        """Largest number of tiles: every tile has at least one row of each exit."""
        return min(shape_of(value)[ROW_AXIS] for value in self.exits)


Band = Mapping[ir.Value, Rows]
"""What one tile needs of every map."""


def runs_of(segment: Segment, schedule: Schedule) -> Iterator[TiledRun]:
    """The runs of tileable layers of a BPU segment: parts of its fused groups."""
    group_of = {schedule.layers[at].name: index for index, group in enumerate(schedule.groups) for at in group}
    run: list[ir.Node] = []
    for node in segment.nodes:
        continues = bool(run) and group_of.get(run[-1].name or "") == group_of.get(node.name or "")
        if run and not (continues and _is_tileable(node)):
            yield _run(run)
            run = []
        if (node.name or "") in group_of and _is_tileable(node):
            run.append(node)
    if run:
        yield _run(run)


def tiles_of(run: TiledRun, tile_bytes: int) -> tuple[Band, ...]:
    """The fewest tiles whose maps fit ``tile_bytes``; where none fit, those that need the least."""
    counts = sorted({*(1 << power for power in range(run.height.bit_length())), run.height})
    candidates = []
    for count in counts:
        bands = tuple(_band(run, index, count) for index in range(count))
        size = max(map(_band_bytes, bands))
        if size <= tile_bytes:
            return bands
        candidates.append((size, bands))
    return min(candidates, key=lambda candidate: candidate[0])[1]


def tiled_model(
    model: ir.Model, segments: Sequence[Segment], schedules: Sequence[Schedule], tile_bytes: int
) -> ir.Model:
    """``model`` with the tiles of its BPU subgraphs written out; inputs and outputs stay.

    Args:
        model: a quantised model; it is not changed.
        segments: its partition.
        schedules: of the BPU segments, in order.
        tile_bytes: on-chip bytes for the maps of one tile.
    """
    on_bpu = (segment for segment in segments if segment.device is Device.BPU)
    runs = [run for segment, schedule in zip(on_bpu, schedules, strict=True) for run in runs_of(segment, schedule)]
    result = model.clone()
    values = {value.name: value for node in result.graph for value in node.outputs}
    values.update({value.name: value for value in result.graph.inputs})
    values.update(result.graph.initializers)
    for number, run in enumerate(runs):
        bands = tiles_of(run, tile_bytes)
        if len(bands) > 1:
            _TileWriter(result.graph, values, f"run{number}").write(run, bands)
    result.graph.sort()
    return result


def _is_tileable(node: ir.Node) -> bool:
    """Whether ``node`` computes one NHWC map of several rows from others, and band by band."""
    values = [*(value for _, value in _activations(node)), *node.outputs]
    if len(node.outputs) != 1 or any(value.shape is None or len(value.shape) != 4 for value in values):
        return False
    return shape_of(node.outputs[0])[ROW_AXIS] > 1 and bpu_operator(node).rows.splits(node)


def _run(nodes: Sequence[ir.Node]) -> TiledRun:
    inside = set(nodes)
    values = [node.outputs[0] for node in nodes]
    leaving = (v for v in values if v.is_graph_output() or any(usage.node not in inside for usage in v.uses()))
    return TiledRun(tuple(nodes), tuple(leaving))


def _band(run: TiledRun, index: int, count: int) -> Band:
    """Rows of every map that tile ``index`` of ``count`` reads or computes."""
    needed: dict[ir.Value, Rows] = {value: _share(value, index, count) for value in run.exits}
    for node in reversed(run.nodes):
        rows = needed[node.outputs[0]]
        for position, value in _activations(node):
            wanted = bpu_operator(node).rows.read(node, position, rows)
            needed[value] = wanted.hull(needed.get(value))
    return needed


def _share(value: ir.Value, index: int, count: int) -> Rows:
    height = shape_of(value)[ROW_AXIS]
    return Rows(index * height // count, (index + 1) * height // count)


def _activations(node: ir.Node) -> list[tuple[int, ir.Value]]:
    """Inputs that are no constants, with their positions."""
    return [(at, value) for at, value in enumerate(node.inputs) if value is not None and value.const_value is None]


def _band_bytes(band: Band) -> int:
    return sum(_bytes_of(value, rows) for value, rows in band.items())


def _bytes_of(value: ir.Value, rows: Rows) -> int:
    batch, _, width, channels = shape_of(value)
    bits = 8 * value.dtype.itemsize if value.dtype is not None else 8
    return activation_bytes((batch, rows.count, width, channels), math.ceil(bits))


class _TileWriter:
    """Replaces the layers of one run by its tiles, in a copy of the model whose values are found by name."""

    def __init__(self, graph: ir.Graph, values: dict[str | None, ir.Value], prefix: str) -> None:
        self._graph = graph
        self._values = values
        self._prefix = prefix

    def write(self, run: TiledRun, bands: Sequence[Band]) -> None:
        """Add the tiles, join what leaves the run, and remove the layers."""
        producers = [self._own(node.outputs[0]).producer() for node in run.nodes]
        parts: dict[ir.Value, list[ir.Value]] = {value: [] for value in run.exits}
        for index, band in enumerate(bands):
            tile = self._tile(run, band, f"{self._prefix}_tile{index}")
            for value in run.exits:
                share = _share(value, index, len(bands))
                parts[value].append(self._slice(tile[value], band[value], share, f"{self._prefix}_tile{index}_out"))
        for value, bits in parts.items():
            whole = self._own(value)
            joined = self._node("", "Concat", bits, value, {"axis": ir.AttrInt64("axis", ROW_AXIS)}, self._prefix)
            joined.shape = whole.shape
            ir.convenience.replace_all_uses_with(whole, joined, replace_graph_outputs=True)
            whole.name, joined.name = None, whole.name
            self._values[value.name] = joined
        self._graph.remove([node for node in producers if node is not None], safe=True)

    def _tile(self, run: TiledRun, band: Band, prefix: str) -> dict[ir.Value, ir.Value]:
        """The layers on the rows of one band; the bands of all maps, computed or sliced, by the original map."""
        available: dict[ir.Value, ir.Value] = {}
        for node in run.nodes:
            for _, value in _activations(node):
                if value not in available:
                    every = Rows(0, shape_of(value)[ROW_AXIS])
                    available[value] = self._slice(self._own(value), every, band[value], f"{prefix}_in")
            output = node.outputs[0]
            available[output] = self._layer(node, band, available, prefix)
        return available

    def _layer(self, node: ir.Node, band: Band, available: Mapping[ir.Value, ir.Value], prefix: str) -> ir.Value:
        output = node.outputs[0]
        rows = band[output]
        inputs = []
        for position, value in enumerate(node.inputs):
            if value is None or value.const_value is not None:
                inputs.append(None if value is None else self._own(value))
            else:
                wanted = bpu_operator(node).rows.read(node, position, rows)
                inputs.append(self._slice(available[value], band[value], wanted, f"{prefix}_{position}"))
        attributes = bpu_operator(node).rows.attributes(node, rows)
        result = self._node(node.domain, node.op_type, inputs, output, attributes, prefix)
        result.shape = _with_rows(output, rows)
        return result

    def _slice(self, source: ir.Value, has: Rows, wanted: Rows, prefix: str) -> ir.Value:
        """Rows ``wanted`` of ``source``, which holds rows ``has`` of the map."""
        if has == wanted:
            return source
        name = f"{prefix}_{len(self._graph.initializers)}"
        bounds = [
            self._constant(f"{name}_{key}", number)
            for key, number in (
                ("starts", wanted.start - has.start),
                ("ends", wanted.stop - has.start),
                ("axes", ROW_AXIS),
            )
        ]
        result = self._node("", "Slice", [source, *bounds], source, {}, name)
        result.shape = _with_rows(source, wanted)
        return result

    def _constant(self, name: str, number: int) -> ir.Value:
        tensor = ir.tensor(np.array([number], np.int64), name=name)
        value = ir.Value(name=name, type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([1]), const_value=tensor)
        self._graph.register_initializer(value)
        return value

    def _node(
        self,
        domain: str,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        like: ir.Value,
        attributes: Mapping[str, ir.Attr],
        prefix: str,
    ) -> ir.Value:
        """A new node; its output has the type of ``like`` and a name of its own."""
        name = f"{prefix}_{op_type}_{like.name}_{len(self._graph)}"
        output = ir.Value(name=name, type=like.type)
        attached = [ir.Attr(a.name, a.type, a.value, doc_string=a.doc_string) for a in attributes.values()]
        self._graph.append(ir.Node(domain, op_type, inputs, attributes=attached, outputs=[output], name=name))
        return output

    def _own(self, value: ir.Value) -> ir.Value:
        return self._values[value.name]


def _with_rows(value: ir.Value, rows: Rows) -> ir.Shape:
    batch, _, width, channels = shape_of(value)
    return ir.Shape([batch, rows.count, width, channels])
