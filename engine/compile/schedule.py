"""The schedule of a BPU subgraph: its layers in running order and which maps go through DDR, the SCHD section."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from engine.compile.layers import Layer, layers_of, through_layout
from engine.compile.memory import spilled_tensors
from engine.compile.packing import Block
from engine.compile.partition import Segment
from engine.compile.records import Record, TensorRecord
from engine.ir import shape_of


class Schedule(Record):
    """One BPU subgraph.

    Attributes:
        name: ``<model>_subgraph_<k>``.
        inputs: tensors that it loads from DDR, NHWC where rank 4.
        outputs: names of the tensors that it stores to DDR.
        layers: in running order.
        spilled: tensors inside the subgraph that are stored to DDR and loaded again.
    """

    name: str
    inputs: tuple[TensorRecord, ...]
    outputs: tuple[str, ...]
    layers: tuple[Layer, ...]
    spilled: tuple[str, ...] = ()


def schedule_of(segment: Segment, name: str, block: Block, capacity: int) -> Schedule:
    """Schedule a BPU segment.

    Args:
        segment: connected BPU nodes.
        name: the subgraph's name.
        block: padding of packed weights.
        capacity: bytes of feature maps that stay on the chip.

    Raises:
        ModelError: a tensor's shape is not static.
    """
    layers = layers_of(segment.nodes, block)
    outputs = _stored(segment.nodes)
    spilled = spilled_tensors(layers, outputs, capacity)
    return Schedule(name=name, inputs=_loaded(segment.nodes), outputs=outputs, layers=layers, spilled=spilled)


def _loaded(nodes: Sequence[ir.Node]) -> tuple[TensorRecord, ...]:
    """What comes from outside: shapes as the first layer sees them, after the layout change at the border."""
    inside = set(nodes)
    found: dict[str, TensorRecord] = {}
    for node in nodes:
        for value in node.inputs:
            if value is None or value.const_value is not None:
                continue
            source = through_layout(value)
            if source.producer() not in inside and value.dtype is not None:
                dtype: object = value.dtype.numpy().name
                record = TensorRecord.model_validate({"name": source.name, "dtype": dtype, "shape": shape_of(value)})
                found[record.name] = record
    return tuple(found.values())


def _stored(nodes: Sequence[ir.Node]) -> tuple[str, ...]:
    """What others read: graph outputs and inputs of other segments, before the layout change at the border."""
    inside = set(nodes)
    leaving = (
        value
        for node in nodes
        for value in node.outputs
        if value.is_graph_output() or any(usage.node not in inside for usage in value.uses())
    )
    return tuple(dict.fromkeys(through_layout(value).name or "" for value in leaving))
