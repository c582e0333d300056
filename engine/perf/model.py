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
from engine.compile.memory import ddr_bytes
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


@dataclass(frozen=True)
class Cost:
    """What one layer takes: computing time in microseconds if nothing else happened, and traffic."""

    compute_us: float
    traffic: Traffic


def layer_costs(schedule: Schedule, latency: Latency) -> tuple[Cost, ...]:
    """Costs of the layers of a subgraph, in running order."""
    inputs = {tensor.name for tensor in schedule.inputs}
    return tuple(
        Cost(compute_us(layer, latency, inputs), traffic)
        for layer, traffic in zip(schedule.layers, _traffic(schedule, latency), strict=True)
    )


def subgraph_us(schedule: Schedule, costs: Sequence[Cost], fitted: Fitted) -> float:
    """Latency of a subgraph in microseconds: fixed costs, and its groups, which overlap only with prefetching."""
    groups = [range(len(costs))] if schedule.prefetch else schedule.groups
    working = sum(_pipelined_us([costs[position] for position in group], fitted) for group in groups)
    return fitted.fixed_us + fitted.layer_us * len(costs) + working


def _pipelined_us(costs: Sequence[Cost], fitted: Fitted) -> float:
    """The busiest engine, and the exposed part of the others."""
    traffic = sum((cost.traffic for cost in costs), Traffic())
    engines = (load_us(traffic, fitted), sum(cost.compute_us for cost in costs), store_us(traffic, fitted))
    tiles: float = ((traffic.loaded + traffic.stored) / fitted.pipeline_bytes) ** fitted.pipeline_power
    return max(engines) + (sum(engines) - max(engines)) / (1 + tiles)


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
    if layer.output_bits == _ACCUMULATOR_BITS:
        time += math.prod(layer.output_shape) / fitted.wide_rate
    for name, shape in zip(layer.inputs, layer.input_shapes, strict=True):
        if name in inputs:
            time += math.prod(shape) / fitted.input_rate
    return time / 1000


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


def _traffic(schedule: Schedule, latency: Latency) -> list[Traffic]:
    """Traffic of each layer: its weights, the inputs and spilled maps that it is the first to read, what it stores."""
    inputs = {tensor.name: tensor for tensor in schedule.inputs}
    stored = set(schedule.outputs) | set(schedule.spilled)
    padding = dict.fromkeys(stored, latency.output_row)
    padding.update(dict.fromkeys(schedule.spilled, _ON_CHIP_ROWS))
    widths = {layer.output: layer.output_bits for layer in schedule.layers}
    loaded_once: set[str] = set()
    result = []
    for layer in schedule.layers:
        loaded = layer.weight_bytes + layer.parameter_bytes
        for name, shape in zip(layer.inputs, layer.input_shapes, strict=True):
            if name in inputs and name not in loaded_once:
                loaded += _input_bytes(inputs[name], latency.input_row)
                loaded_once.add(name)
            elif name in schedule.spilled:
                loaded += ddr_bytes(shape, widths[name], _ON_CHIP_ROWS)
        out = ddr_bytes(layer.output_shape, layer.output_bits, padding[layer.output]) if layer.output in stored else 0
        result.append(Traffic(loaded, out))
    return result


def _input_bytes(tensor: InputTensor, padding: RowPadding) -> int:
    """Bytes of an input in DDR; NV12 planes are dense: 3/2 bytes per pixel."""
    if tensor.nv12:
        return math.prod(tensor.shape[:3]) * 3 // 2
    return ddr_bytes(tensor.shape, 8 * _bytes_of(tensor.dtype), padding)


_ON_CHIP_ROWS = RowPadding(block=8, minimum=8)
"""Spilled maps keep their on-chip rows, padded to 8 pixels."""


def _bytes_of(dtype: str) -> int:
    widths: Mapping[str, int] = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4}
    return widths[dtype]
