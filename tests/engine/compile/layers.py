"""Layers and subgraphs to price, without the graphs that they come from."""

from __future__ import annotations

from typing import Any

from engine.compile.layers import Layer
from engine.compile.memory import Memory
from engine.compile.schedule import InputTensor, Schedule, schedule_layers
from engine.ops.core.costs import CostKind

AMPLE = Memory(1 << 20, 1 << 20)


def layer(kind: CostKind, shape: tuple[int, ...], *inputs: tuple[int, ...], **details: Any) -> Layer:
    """A layer ``y`` of ``x0``, ``x1`` ... with the shapes ``inputs``."""
    names = tuple(f"x{index}" for index in range(len(inputs)))
    return Layer(
        name="y", op_type=kind, kind=kind, inputs=names, output="y", input_shapes=inputs, output_shape=shape, **details
    )


def alone(
    kind: CostKind, shape: tuple[int, ...], *inputs: tuple[int, ...], inner: bool = True, **details: Any
) -> Schedule:
    """A subgraph of one layer; ``inner``: whether others in the network compute its inputs."""
    only = layer(kind, shape, *inputs, **{"leaves": True, **details})
    dtype = {8: "int8", 16: "int16", 32: "int32"}[only.input_bits]
    tensors = tuple(
        InputTensor(name=name, dtype=dtype, shape=size, inner=inner)
        for name, size in zip(only.inputs, inputs, strict=True)
    )
    return schedule_layers("s", tensors, ("y",), (only,), AMPLE)


def convolution(name: str, inputs: tuple[str, ...], size: int = 16, channels: int = 16) -> Layer:
    """A convolution of square maps that keeps their shape."""
    shape = (1, size, size, channels)
    return Layer(
        name=name,
        op_type="HzSQuantizedConv",
        kind=CostKind.CONV,
        inputs=inputs,
        output=name,
        input_shapes=(shape,) * len(inputs),
        output_shape=shape,
    )
