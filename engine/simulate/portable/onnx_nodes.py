"""Standard nodes of a quantised graph for which ONNX Runtime has no kernel on small integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from engine.ops.core.portable import Array, Emitter

SMALL_INTEGERS = (np.dtype(np.int8), np.dtype(np.int16))

SELECTING = frozenset(
    {"Max", "Min", "Pad", "Where", "Relu", "DepthToSpace", "SpaceToDepth", "ReduceMax", "ReduceMin", "MaxPool", "TopK"}
)
"""Operators that only choose among their inputs' values: the same in float32, which holds 16-bit integers exactly."""


def needs_carrier(node: ir.Node, inputs: Sequence[Array | None]) -> bool:
    """Whether ``node`` is to be computed in float32."""
    return node.op_type in SELECTING and any(x is not None and x.dtype in SMALL_INTEGERS for x in inputs)


def in_float32(
    node: ir.Node, inputs: Sequence[Array | None], outputs: Sequence[Array], emit: Emitter
) -> tuple[ir.Value, ...]:
    """``node`` on float32 in the place of small integers.

    Args:
        node: a selecting node.
        inputs: arrays of its inputs' types, None for omitted ones.
        outputs: arrays of its outputs' types.
        emit: where to write it.
    """
    cast = [
        emit.cast(value, np.float32) if array is not None and array.dtype in SMALL_INTEGERS else value
        for value, array in zip(node.inputs, inputs, strict=True)
    ]
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    results = emit.ops(node.op_type, len(node.outputs), *cast, **attributes)
    return tuple(
        emit.cast(result, array.dtype) if array.dtype in SMALL_INTEGERS else result
        for result, array in zip(results, outputs, strict=True)
    )
