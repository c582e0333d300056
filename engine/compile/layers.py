"""The layers of a BPU subgraph: what each computes, in shapes and counts, without numbers.

A layer is one node of the quantised graph. Layout changes are no layers: a subgraph's tensors are NHWC inside, and its
borders are described by the container.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Annotated

import numpy as np
import onnx_ir as ir
from pydantic import Field

from engine.compile.motion import Motion, motions_of, rearranged_inputs
from engine.compile.packing import Block, packed_bytes, weight_layout
from engine.compile.partition import is_layout_change
from engine.compile.records import Count, Record, Shape
from engine.ir import attribute, shape_of
from engine.ops.core.costs import WEIGHTED, CostKind
from engine.ops.core.float_nodes import NHWC_AXIS
from engine.ops.registry import bpu_operator

CHANNEL_PARAMETER_BYTES = 8
"""Bytes of bias and requantisation parameters per output channel.

Source: reference/latency.md: loaded = input + weights + 8 x Cout.
"""


_STEPPED = frozenset({CostKind.CONV, CostKind.DEPTHWISE, CostKind.GROUPED})
_RESCALING = "HzRequantize"
MAXIMUM = "HzQuantizedMaxPool"
"""Operator of a layer that takes the maximum of windows."""
_MAXIMUM_OF_AXIS = "HzQuantizedReduceMax"
_TABLE_BITS = 8
_MAP_RANK = 4
_WIDEST_STEP = 2

Step = Annotated[int, Field(ge=1, le=1 << 31)]
"""Size of a window, stride, distance of taps, or number of groups."""
Position = Annotated[int, Field(ge=0, le=1 << 16)]
Bits = Annotated[int, Field(ge=1, le=64)]


class Overlap(StrEnum):
    """Which loads and stores go on while layers compute."""

    NONE = "none"
    BORDERS = "borders"
    """Inputs, weights and outputs; not what passes through DDR within the subgraph."""
    GROUPS = "groups"
    """All, among layers that run together; one group follows the other."""
    ALL = "all"


class Part(Record):
    """A further result of a layer that cuts a map into parts.

    Attributes:
        output: name of the tensor.
        output_shape: its shape.
        planar: whether it leaves the subgraph channel by channel (NCHW), perhaps after its dequantisation.
        copied: whether it leaves as it is besides, for another subgraph.
        leaves: whether it leaves the subgraph at all.
    """

    output: str
    output_shape: Shape
    planar: bool = False
    copied: bool = False
    leaves: bool = False


class Layer(Record):
    """One layer.

    Attributes:
        name: the node's name.
        op_type: operator of the quantised graph.
        kind: cost class.
        inputs: names of the tensors it reads, constants left out; layout changes are looked through.
        output: name of the tensor that it computes.
        input_shapes: shapes of ``inputs``, NHWC for rank 4.
        output_shape: shape of ``output``.
        input_bits: width of the first input's elements.
        output_bits: width of the output's elements.
        kernel: window height and width; (1, 1) where there is none.
        strides: vertical and horizontal stride.
        padded: whether its first window begins outside of the map.
        dilations: vertical and horizontal distance of the window's taps.
        planar: whether the output leaves the subgraph channel by channel (NCHW), perhaps after its dequantisation.
        copied: whether it leaves as it is besides, for another subgraph.
        leaves: whether the output leaves the subgraph at all.
        motion: what a reshape or a transposition does to the order of memory.
        rearranged: positions of the inputs that it reads in another layout than the layer before them left, ...
        converted: ... and of those in front of which a layout changes, though another change may restore it.
        group: convolution groups.
        macs: multiply-accumulates per frame.
        weight_bytes: packed weights.
        parameter_bytes: biases, requantisation parameters and tables.
        parts: what it computes besides ``output``.
    """

    name: str
    op_type: str
    kind: CostKind
    inputs: tuple[str, ...]
    output: str
    input_shapes: tuple[Shape, ...]
    output_shape: Shape
    input_bits: Bits = 8
    output_bits: Bits = 8
    kernel: tuple[Step, Step] = (1, 1)
    strides: tuple[Step, Step] = (1, 1)
    padded: bool = False
    dilations: tuple[Step, Step] = (1, 1)
    planar: bool = False
    copied: bool = False
    leaves: bool = False
    motion: Motion = Motion.ROWS
    rearranged: tuple[Position, ...] = ()
    converted: tuple[Position, ...] = ()
    group: Step = 1
    macs: Count = 0
    weight_bytes: Count = 0
    parameter_bytes: Count = 0
    parts: tuple[Part, ...] = ()

    def parts_alone(self) -> tuple[Layer, ...]:
        """The layer with each of its ``parts`` instead of its first result."""
        own = {name: getattr(self, name) for name in Layer.model_fields}
        return tuple(
            Layer.model_construct(**{**own, **{name: getattr(part, name) for name in Part.model_fields}, "parts": ()})
            for part in self.parts
        )

    @property
    def ops(self) -> int:
        """Operations per frame as the original counts them: two per multiply-accumulate."""
        return 2 * self.macs

    @property
    def rescales(self) -> bool:
        """Whether it gives a map another scale, in front of a concatenation."""
        return self.op_type == _RESCALING

    @property
    def largest(self) -> bool:
        """Whether it takes the maximum along an axis."""
        return self.op_type == _MAXIMUM_OF_AXIS

    @property
    def largest_of_windows(self) -> bool:
        """Whether it takes the maximum of windows."""
        return self.op_type == MAXIMUM

    @property
    def does_nothing(self) -> bool:
        """Whether it is a pool of windows of one pixel, or reduces a side of one element."""
        if self.kind is CostKind.REDUCE:
            return tuple(self.input_shapes[0]) == tuple(self.output_shape)
        return self.kind is CostKind.POOL and self.kernel == (1, 1) == self.strides

    @property
    def overlaps(self) -> bool:
        """Whether it takes the maximum of windows that overlap, in steps of one pixel or from within the map."""
        overlapping = self.largest_of_windows and self.kernel[0] > self.strides[0]
        return overlapping and (self.strides[0] == 1 or not self.padded)

    @property
    def spread(self) -> tuple[int, int]:
        """Vertical and horizontal distance of its window's taps; 1 along a side of one tap, whatever it says."""
        down, right = (step if side > 1 else 1 for step, side in zip(self.dilations, self.kernel, strict=True))
        return down, right

    @property
    def stepped_shape(self) -> tuple[int, ...]:
        """``output_shape`` before most of it is left out.

        Steps of more than two pixels of a layer of weights are computed two pixels at a time, or one where they are
        odd.
        """
        if self.kind not in _STEPPED or len(self.output_shape) != _MAP_RANK:
            return self.output_shape
        batch, height, width, channels = self.output_shape
        down, right = map(_skipped, self.strides)
        return batch, (height - 1) * down + 1, (width - 1) * right + 1, channels


def _skipped(step: int) -> int:
    """Results per one that is kept."""
    if step <= _WIDEST_STEP:
        return 1
    return step if step % _WIDEST_STEP else step // _WIDEST_STEP


def layers_of(nodes: Sequence[ir.Node], block: Block) -> tuple[Layer, ...]:
    """The layers of a BPU segment in running order; ``block`` is the padding of packed weights.

    Raises:
        ModelError: a tensor's shape is not static.
        UnsupportedError: the BPU does not have an operator.
    """
    motions = motions_of(nodes)
    layers = [node for node in nodes if not is_layout_change(node)]
    rearranged = rearranged_inputs(nodes)
    inside = set(nodes)
    found = (
        _composed(node, _layer(node, block, motions.get(node, _motion_of(node)), rearranged.get(node, ())), inside)
        for node in layers
    )
    converted = (_converted(node, inside) for node in layers)
    both = (_is_copied(node.outputs[0], inside) for node in layers)
    leaving = (_leaves(node.outputs[0], inside) for node in layers)
    parts = (tuple(_part(value, inside) for value in node.outputs[1:]) for node in layers)
    return tuple(
        layer.model_copy(update={"converted": positions, "copied": copied, "leaves": leaves, "parts": further})
        for layer, positions, copied, leaves, further in zip(found, converted, both, leaving, parts, strict=True)
    )


def _part(value: ir.Value, inside: Collection[ir.Node]) -> Part:
    return Part(
        output=value.name or "",
        output_shape=shape_of(value),
        planar=_is_planar(value),
        copied=_is_copied(value, inside),
        leaves=_leaves(value, inside),
    )


def _composed(node: ir.Node, layer: Layer, inside: Collection[ir.Node]) -> Layer:
    """``layer``, or one that does nothing: a table of int8 that one table alone reads is looked up with that one."""
    readers = [usage.node for usage in node.outputs[0].uses()]
    if layer.kind is not CostKind.LUT or layer.input_bits > _TABLE_BITS or node.outputs[0].is_graph_output():
        return layer
    if len(readers) != 1 or readers[0] not in inside or bpu_operator(readers[0]).cost is not CostKind.LUT:
        return layer
    return layer.model_copy(update={"kind": CostKind.RESHAPE, "motion": Motion.NONE, "parameter_bytes": 0})


def _converted(node: ir.Node, inside: Collection[ir.Node]) -> tuple[int, ...]:
    """Positions of the activations of ``node`` that a layout change inside the segment gives."""
    activations = [value for value in node.inputs if value is not None and value.const_value is None]
    changed = (through_layout(value) for value in activations)
    return tuple(
        position
        for position, (value, source) in enumerate(zip(activations, changed, strict=True))
        if source is not value and source.producer() in inside
    )


def _motion_of(node: ir.Node) -> Motion:
    """What a layer that is neither Reshape nor Transpose does to the order of memory; slices of a slice are one."""
    readers = [usage.node.op_type for usage in node.outputs[0].uses()]
    if node.op_type == "Slice" and readers and set(readers) == {"Slice"}:
        return Motion.NONE
    return _MOTIONS.get(node.op_type, Motion.ROWS)


_MOTIONS = {
    "HzChannelShuffle": Motion.PLANES,
    "HzDepthToSpace": Motion.BLOCKS,
    "HzSpaceToDepth": Motion.FOLDED,
}


def through_layout(value: ir.Value) -> ir.Value:
    """The tensor that ``value`` is a re-ordered view of."""
    node = value.producer()
    while node is not None and is_layout_change(node) and node.inputs[0] is not None and _is_integer(node.inputs[0]):
        value = node.inputs[0]
        node = value.producer()
    return value


def _is_planar(value: ir.Value) -> bool:
    """Whether what reads ``value``, perhaps dequantised, turns it into NCHW."""
    readers = [usage.node for usage in value.uses()]
    after = [usage.node for node in readers if node.op_type == "HzDequantize" for usage in node.outputs[0].uses()]
    return any(tuple(attribute(node, "perm")) == NHWC_AXIS for node in (*readers, *after) if is_layout_change(node))


def _is_copied(value: ir.Value, inside: Collection[ir.Node]) -> bool:
    """Whether ``value`` leaves the subgraph as NCHW, and as it is for another one."""
    readers = [usage.node for usage in value.uses()]
    turned = [node.outputs[0] for node in readers if is_layout_change(node)]
    leaves = any(usage.node not in inside for other in turned for usage in other.uses())
    others = (node for node in readers if node not in inside and not is_layout_change(node))
    return leaves and _is_planar(value) and any(node.op_type != "HzDequantize" for node in others)


def _leaves(value: ir.Value, inside: Collection[ir.Node]) -> bool:
    """Whether ``value``, perhaps in another layout, leaves the subgraph."""
    readers = [usage.node for usage in value.uses()]
    turned = [node.outputs[0] for node in readers if node in inside and is_layout_change(node)]
    outside = value.is_graph_output() or any(node not in inside for node in readers)
    return outside or any(_leaves(other, inside) for other in turned)


def _is_integer(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_integer()


def _layer(node: ir.Node, block: Block, motion: Motion, rearranged: tuple[int, ...]) -> Layer:
    activations = [value for value in node.inputs if value is not None and value.const_value is None]
    declared = bpu_operator(node).cost
    weight = _weight(node, declared)
    output = node.outputs[0]
    out_shape = shape_of(output)
    return Layer(
        name=node.name or "",
        op_type=node.op_type,
        kind=_kind(node, declared, weight),
        inputs=tuple(through_layout(value).name or "" for value in activations),
        output=output.name or "",
        input_shapes=tuple(shape_of(value) for value in activations),
        output_shape=out_shape,
        input_bits=_bits(activations[0]) if activations else 8,
        output_bits=_bits(output),
        kernel=_pair(node, "kernel_shape"),
        strides=_pair(node, "strides"),
        padded=any(attribute(node, "pads", ())[:2]),
        dilations=_pair(node, "dilations"),
        planar=_is_planar(output),
        motion=motion,
        rearranged=rearranged,
        group=int(attribute(node, "group", 1)),
        macs=_macs(node, declared, weight, out_shape),
        weight_bytes=0
        if weight is None
        else packed_bytes("int8", weight.shape, weight_layout(weight.shape, block), block),
        parameter_bytes=_parameter_bytes(node, weight, out_shape),
    )


def _weight(node: ir.Node, declared: CostKind) -> np.ndarray | None:
    if declared not in WEIGHTED or len(node.inputs) < 2 or node.inputs[1] is None:
        return None
    tensor = node.inputs[1].const_value
    return None if tensor is None else tensor.numpy()


def _kind(node: ir.Node, declared: CostKind, weight: np.ndarray | None) -> CostKind:
    """A convolution of several groups is of a kind of its own."""
    group = int(attribute(node, "group", 1))
    if declared is CostKind.CONV and weight is not None and group > 1:
        return CostKind.DEPTHWISE if weight.shape[3] == 1 else CostKind.GROUPED
    return declared


def _macs(node: ir.Node, declared: CostKind, weight: np.ndarray | None, out_shape: tuple[int, ...]) -> int:
    """Multiply-accumulates: output elements times the weights that each of them takes."""
    first = node.inputs[0]
    if weight is not None:
        pixels = shape_of(first) if declared is CostKind.TRANSPOSED and first is not None else out_shape
        return math.prod(pixels) * math.prod(weight.shape[1:])
    if declared is CostKind.MATMUL and first is not None:
        return math.prod(out_shape) * shape_of(first)[-1]
    return 0


def _parameter_bytes(node: ir.Node, weight: np.ndarray | None, out_shape: tuple[int, ...]) -> int:
    if weight is not None:
        return CHANNEL_PARAMETER_BYTES * out_shape[-1]
    constants = [value.const_value for value in node.inputs if value is not None and value.const_value is not None]
    return sum(tensor.nbytes for tensor in constants)


def _pair(node: ir.Node, name: str) -> tuple[int, int]:
    values = attribute(node, name, (1, 1))
    return (int(values[0]), int(values[1])) if len(values) == 2 else (1, 1)


def _bits(value: ir.Value) -> int:
    return int(8 * value.dtype.itemsize) if value.dtype is not None else 8
