"""What an operator costs on the BPU, as a class; the figures belong to the march's latency description."""

from __future__ import annotations

from enum import StrEnum


class CostKind(StrEnum):
    """How the BPU executes a layer, as far as its cost goes.

    An operator declares one of these. ``DEPTHWISE`` and ``GROUPED`` follow from the weights of a ``CONV``; no operator
    declares them.
    """

    CONV = "conv"
    DEPTHWISE = "depthwise"
    GROUPED = "grouped"
    TRANSPOSED = "transposed"
    MATMUL = "matmul"
    ADD = "add"
    SLOPE = "slope"
    MUL = "mul"
    LUT = "lut"
    POOL = "pool"
    REDUCE = "reduce"
    RESIZE = "resize"
    JOIN = "join"
    RESHAPE = "reshape"
    TRANSPOSE = "transpose"
    MOVE = "move"


OF_WEIGHTS = frozenset({CostKind.CONV, CostKind.DEPTHWISE, CostKind.GROUPED, CostKind.TRANSPOSED, CostKind.MATMUL})
"""Kinds of layers that run in the array of multipliers."""
MOVEMENTS = frozenset({CostKind.JOIN, CostKind.RESHAPE, CostKind.TRANSPOSE, CostKind.MOVE})
"""Kinds whose outputs hold the values of their inputs."""
WEIGHTED = frozenset({CostKind.CONV, CostKind.TRANSPOSED})
"""Kinds whose second input holds weights, output or input channels first."""
