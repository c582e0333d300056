"""The schedule of a BPU subgraph: layers, fused groups and memory plan, the SCHD section."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Self

import onnx_ir as ir
from pydantic import Field, model_validator

from engine.compile.layers import Layer, Overlap, layers_of, through_layout
from engine.compile.memory import Memory, planned, relaid_bytes
from engine.compile.packing import Block
from engine.compile.partition import Segment, is_layout_change
from engine.compile.records import Name, Record, Size, TensorRecord
from engine.compile.turned import turned_softmaxes
from engine.ir import shape_of
from engine.limits import beyond, limit


class InputTensor(TensorRecord):
    """A tensor that a subgraph loads.

    Attributes:
        nv12: an image of a luma plane and one of half the rows with both chromas.
        inner: computed by another subgraph or by the CPU; what enters the model comes as its user has it.
        plain: left by another subgraph, pixel by pixel.
        from_cpu: left by the CPU, channel by channel.
    """

    nv12: bool = False
    inner: bool = False
    plain: bool = False
    from_cpu: bool = False


class Schedule(Record):
    """One BPU subgraph.

    Attributes:
        name: ``<model>_subgraph_<k>``.
        inputs: tensors that it loads from DDR, NHWC where rank 4.
        outputs: names of the tensors that it stores to DDR.
        layers: in running order; none where the subgraph only moves data at its borders.
        groups: positions of layers that run row by row together.
        spilled: tensors inside the subgraph that are stored to DDR and loaded again.
        relaid: bytes by which inputs, outputs and spilled tensors pass through DDR again to be rearranged.
        overlap: what of the traffic goes on while layers compute.
        by_layer: whether times of transfers are those of kinds of layers (O0), though maps are rearranged.
        cores: cores that share a frame, each with its part of the rows of every layer and with all weights.
    """

    name: str
    inputs: tuple[InputTensor, ...]
    outputs: tuple[str, ...]
    layers: tuple[Layer, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    spilled: tuple[str, ...] = ()
    relaid: dict[Name, Size] = Field(default={})
    overlap: Overlap = Overlap.ALL
    by_layer: bool = False
    cores: Annotated[int, Field(ge=1, le=16)] = 1

    @model_validator(mode="after")
    def _is_of_its_layers(self) -> Self:
        if len(self.layers) > limit("SCHEDULE_LAYERS"):
            raise ValueError(f"layers: {beyond('SCHEDULE_LAYERS')}")
        for group in self.groups:
            if not all(0 <= position < len(self.layers) for position in group):
                raise ValueError(f"groups: {list(group)}: there are {len(self.layers)} layers")
        return self

    @property
    def is_told_by_layer(self) -> bool:
        """Whether each layer moves its maps by itself (O0)."""
        return self.overlap is Overlap.NONE and (self.by_layer or not self.relaid)

    @property
    def input_names(self) -> frozenset[str]:
        """Names of the tensors that it loads."""
        return frozenset(tensor.name for tensor in self.inputs)

    def on_cores(self, cores: int) -> Schedule:
        """This schedule for ``cores`` cores; they wait for each other after every group."""
        return self.model_copy(update={"cores": cores})


def schedule_of(
    segment: Segment, name: str, block: Block, memory: Memory, nv12_inputs: Collection[str] = ()
) -> Schedule:
    """Schedule a BPU segment.

    Args:
        segment: connected BPU nodes.
        name: the subgraph's name.
        block: padding of packed weights.
        memory: on-chip memory that may be used.
        nv12_inputs: names of the inputs that are NV12 images at run time.

    Raises:
        ModelError: a tensor's shape is not static.
    """
    layers = turned_softmaxes(layers_of(segment.nodes, block))
    return schedule_layers(name, _loaded(segment.nodes, nv12_inputs), _stored(segment.nodes), layers, memory)


def schedule_layers(
    name: str, inputs: tuple[InputTensor, ...], outputs: tuple[str, ...], layers: tuple[Layer, ...], memory: Memory
) -> Schedule:
    """Group layers and plan their memory.

    Args:
        name: of the subgraph.
        inputs: of the subgraph.
        outputs: names of the tensors that leave it.
        layers: in running order.
        memory: on the chip of the march, and its rules.
    """
    groups, spilled = planned(layers, outputs, memory)
    return Schedule(
        name=name,
        inputs=inputs,
        outputs=outputs,
        layers=layers,
        groups=groups,
        spilled=spilled,
        relaid=relaid_bytes(layers, [tensor.name for tensor in inputs], outputs, spilled, memory),
        overlap=memory.overlap,
        by_layer=memory.by_layer,
    )


def _loaded(nodes: Sequence[ir.Node], nv12_inputs: Collection[str]) -> tuple[InputTensor, ...]:
    """What comes from outside: shapes as the first layer sees them, after the layout change at the border."""
    inside = set(nodes)
    found: dict[str, InputTensor] = {}
    for node in nodes:
        for value in node.inputs:
            if value is None or value.const_value is not None:
                continue
            source = through_layout(value)
            if source.producer() not in inside and value.dtype is not None:
                name, dtype = source.name or "", value.dtype.numpy().name
                content = {"name": name, "dtype": dtype, "shape": shape_of(value), "nv12": name in nv12_inputs}
                content["inner"] = not _enters(source)
                producer = source.producer()
                by_cpu = producer is None or producer.op_type == "HzQuantize"
                content |= {"plain": content["inner"] and not by_cpu, "from_cpu": content["inner"] and by_cpu}
                found[name] = InputTensor.model_validate(content)
    return tuple(found.values())


def _enters(value: ir.Value) -> bool:
    """Whether ``value`` is an input of the model, perhaps quantised and in another layout."""
    producer = value.producer()
    while producer is not None and (producer.op_type == "HzQuantize" or is_layout_change(producer)):
        first = producer.inputs[0]
        producer = None if first is None else first.producer()
    return producer is None


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
