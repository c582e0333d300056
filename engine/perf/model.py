"""The cost model: what a layer and a subgraph take, from shapes and the march's constants.

Three engines work on a subgraph: load, compute, store. A small subgraph is one tile and passes through them one after
the other; the more data it moves the more tiles it has, and the more of the work hides behind the busiest engine
(LATENCY.md, "Overlap"; ``docs/performance_model.md`` has the evidence and the errors).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.compile.layers import Layer, LayerKind
from engine.compile.memory import Overlap, ddr_bytes
from engine.compile.packing import round_up
from engine.compile.schedule import InputTensor, Schedule
from engine.march.latency import Alignment, Fitted, Latency, RowPadding

_GROUP_LANES = 16
"""Input channels of a group below which a grouped convolution gets no cheaper (LATENCY.md: "about 16")."""

_ACCUMULATOR_BITS = 32


@dataclass(frozen=True)
class Traffic:
    """Bytes over the DDR interface per frame."""

    loaded: int = 0
    stored: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.loaded + other.loaded, self.stored + other.stored)

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(self.loaded - other.loaded, self.stored - other.stored)


@dataclass(frozen=True)
class Cost:
    """What one layer takes: computing time in microseconds if nothing else happened, and traffic.

    Attributes:
        compute_us: computing time.
        drain_us: time in which int32 results leave the accumulators, beside computing.
        traffic: all of it.
        detour: the part of ``traffic`` by which maps pass through DDR within the subgraph.
    """

    compute_us: float
    traffic: Traffic
    detour: Traffic = Traffic()
    drain_us: float = 0.0

    @property
    def working_us(self) -> float:
        """Time that the layer takes besides its traffic."""
        return self.compute_us + self.drain_us


def layer_costs(schedule: Schedule, latency: Latency) -> tuple[Cost, ...]:
    """Costs of the layers of a subgraph, in running order."""
    inputs = {tensor.name for tensor in schedule.inputs}
    return tuple(
        Cost(
            compute_us(layer, latency, inputs) / schedule.cores,
            straight + detour,
            detour,
            drain_us(layer, latency.fitted) / schedule.cores,
        )
        for layer, (straight, detour) in zip(schedule.layers, _traffic(schedule, latency), strict=True)
    )


def subgraph_us(schedule: Schedule, costs: Sequence[Cost], fitted: Fitted) -> float:
    """Latency of a subgraph in microseconds: fixed costs, and its engines as far as they overlap."""
    working = (sum(cost.compute_us for cost in costs), sum(cost.drain_us for cost in costs))
    weights = schedule.cores * sum(layer.weight_bytes + layer.parameter_bytes for layer in schedule.layers)
    traffic = sum((cost.traffic for cost in costs), Traffic())
    fixed = fitted.fixed_us + fitted.layer_us * len(costs)
    match schedule.overlap:
        case Overlap.NONE:
            return fixed + sum(working) + transfer_us(traffic, fitted)
        case Overlap.BORDERS:
            detours = sum((cost.detour for cost in costs), Traffic())
            return fixed + _pipelined_us(working, traffic - detours, weights, fitted) + transfer_us(detours, fitted)
        case Overlap.ALL:
            return fixed + _pipelined_us(working, traffic, weights, fitted)


def _pipelined_us(working: tuple[float, ...], traffic: Traffic, weights: int, fitted: Fitted) -> float:
    """The busiest engine, and the exposed part of the others.

    Maps are cut into tiles, weights are not: only what maps move makes tiles that overlap (a layer of many channels on
    few pixels loads its weights, then computes).
    """
    engines = (load_us(traffic, fitted), *working, store_us(traffic, fitted))
    maps = traffic.loaded + traffic.stored - weights
    tiles: float = (maps / fitted.pipeline_bytes) ** fitted.pipeline_power
    return max(engines) + (sum(engines) - max(engines)) / (1 + tiles)


def transfer_us(traffic: Traffic, fitted: Fitted) -> float:
    """Time to load and store, one after the other."""
    return load_us(traffic, fitted) + store_us(traffic, fitted)


def load_us(traffic: Traffic, fitted: Fitted) -> float:
    """Time to load."""
    return traffic.loaded / fitted.load_gbps / 1000


def store_us(traffic: Traffic, fitted: Fitted) -> float:
    """Time to store."""
    return traffic.stored / fitted.store_gbps / 1000


def compute_us(layer: Layer, latency: Latency, inputs: set[str]) -> float:
    """Computing time of a layer.

    Args:
        layer: the layer.
        latency: the march.
        inputs: tensors that come from outside the subgraph and are brought into the array's layout first.
    """
    fitted = latency.fitted
    time = _kernel_ns(layer, latency)
    for name, shape in zip(layer.inputs, layer.input_shapes, strict=True):
        if name in inputs:
            time += math.prod(shape) / fitted.input_rate
    return time / 1000


def drain_us(layer: Layer, fitted: Fitted) -> float:
    """Time in which int32 results leave the accumulators; narrower ones leave while they are computed."""
    if layer.output_bits != _ACCUMULATOR_BITS:
        return 0.0
    return math.prod(layer.output_shape) / fitted.wide_rate / 1000


def aligned_shape(shape: Sequence[int], alignment: Alignment) -> tuple[int, ...]:
    """``shape`` (NHWC) as the hardware computes it; other ranks are left alone."""
    if len(shape) != 4:
        return tuple(shape)
    batch, height, width, channels = shape
    rows, pixels = round_up(height, alignment.height), round_up(width, alignment.width)
    if height == width == 1:
        rows, pixels = alignment.single_pixel
    return batch, rows, pixels, round_up(channels, alignment.out_channels)


def _kernel_ns(layer: Layer, latency: Latency) -> float:
    fitted = latency.fitted
    elements = math.prod(layer.output_shape)
    window = layer.kernel[0] * layer.kernel[1]
    match layer.kind:
        case LayerKind.CONV | LayerKind.GROUPED | LayerKind.TRANSPOSED | LayerKind.MATMUL:
            macs = _aligned_macs(layer, latency.alignment) * _type_factor(layer, fitted)
            moved = sum(math.prod(shape) for shape in layer.input_shapes) + elements
            return max(macs / fitted.mac_rate, moved / fitted.activation_rate)
        case LayerKind.DEPTHWISE:
            rows = math.prod(aligned_shape(layer.output_shape, latency.alignment)[1:3])
            channels = round_up(layer.output_shape[-1], latency.alignment.in_channels)
            return _type_factor(layer, fitted) * rows * channels * window / fitted.depthwise_rate
        case LayerKind.MUL:
            return elements / fitted.multiply_rate
        case LayerKind.POOL:
            return elements * window / fitted.pool_rate
        case LayerKind.REDUCE:
            return math.prod(layer.input_shapes[0]) / fitted.pool_rate
        case LayerKind.RESIZE:
            return elements / fitted.resize_rate
        case LayerKind.ADD | LayerKind.LUT | LayerKind.MOVE:
            return elements / fitted.elementwise_rate


def _aligned_macs(layer: Layer, alignment: Alignment) -> float:
    """Multiply-accumulates including those on padding."""
    if len(layer.output_shape) != 4:
        return layer.macs
    _, height, width, channels = aligned_shape(layer.output_shape, alignment)
    per_group = layer.input_shapes[0][-1] // layer.group
    if layer.kind is LayerKind.GROUPED:
        per_group = max(per_group, _GROUP_LANES)
    depth = round_up(per_group, alignment.in_channels)
    window = layer.kernel[0] * layer.kernel[1]
    if layer.kind is LayerKind.TRANSPOSED:
        window = -(-window // (layer.strides[0] * layer.strides[1]))
    return layer.output_shape[0] * height * width * channels * depth * window


def _type_factor(layer: Layer, fitted: Fitted) -> float:
    return fitted.int16_factor if layer.input_bits > 8 else 1.0


def _traffic(schedule: Schedule, latency: Latency) -> list[tuple[Traffic, Traffic]]:
    """Traffic of each layer: weights, inputs that it is the first to read and outputs; spilled and rearranged maps."""
    inputs = {tensor.name: tensor for tensor in schedule.inputs}
    outputs, spilled = set(schedule.outputs), set(schedule.spilled)
    widths = {layer.output: layer.output_bits for layer in schedule.layers}
    loaded_once: set[str] = set()
    result = []
    for layer in schedule.layers:
        straight, detour = Traffic(schedule.cores * (layer.weight_bytes + layer.parameter_bytes)), Traffic()
        for name, shape in zip(layer.inputs, layer.input_shapes, strict=True):
            if name in inputs and name not in loaded_once:
                straight += Traffic(loaded=_input_bytes(inputs[name], latency))
                detour += _round_trip(schedule, name)
                loaded_once.add(name)
            elif name in spilled:
                detour += Traffic(loaded=ddr_bytes(shape, widths[name], _ON_CHIP_ROWS))
        if layer.output in outputs:
            straight += Traffic(stored=ddr_bytes(layer.output_shape, layer.output_bits, latency.output_row))
            detour += _round_trip(schedule, layer.output)
        elif layer.output in spilled:
            detour += Traffic(stored=ddr_bytes(layer.output_shape, layer.output_bits, _ON_CHIP_ROWS))
        result.append((straight, detour))
    return result


def _round_trip(schedule: Schedule, name: str) -> Traffic:
    """What rearranging an input or output moves."""
    moved = schedule.relaid.get(name, 0)
    return Traffic(moved, moved)


def _input_bytes(tensor: InputTensor, latency: Latency) -> int:
    """Bytes of an input in DDR and of the layer that rearranges it; NV12 planes are dense: 3/2 bytes per pixel."""
    if tensor.nv12:
        return math.prod(tensor.shape[:3]) * 3 // 2
    extra = latency.input_layer
    parameters = extra.channel_bytes * round_up(tensor.shape[-1], extra.channels) + extra.fixed_bytes
    return ddr_bytes(tensor.shape, 8 * _bytes_of(tensor.dtype), latency.input_row) + parameters


_ON_CHIP_ROWS = RowPadding(block=8, minimum=8)
"""Spilled maps keep their on-chip rows, padded to 8 pixels."""


def _bytes_of(dtype: str) -> int:
    widths: Mapping[str, int] = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4}
    return widths[dtype]
