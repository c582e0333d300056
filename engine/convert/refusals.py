"""Models that are refused whatever the configuration says."""

from __future__ import annotations

import onnx_ir as ir

from engine.chips import Chip
from engine.errors import UnsupportedError
from engine.ir import shape_of, static_shape

NOT_IN_RUNTIME = frozenset(
    [
        "Compress",
        "Det",
        "Hardmax",
        "IsInf",
        "IsNaN",
        "MatMulInteger",
        "MaxUnpool",
        "Mean",
        "MeanVarianceNormalization",
        "NonMaxSuppression",
        "NonZero",
        "QuantizeLinear",
        "DequantizeLinear",
        "Unique",
        "Xor",
    ]
)
"""Operators that neither a march nor the CPU's runtime has."""


def refuse_cpu_operators(model: ir.Model) -> None:
    """Refuse a model with operators that the board's runtime does not have (reference/operators.md, "Refused").

    Raises:
        UnsupportedError: names their types.
    """
    found = sorted({node.op_type for node in model.graph} & NOT_IN_RUNTIME)
    if found:
        raise UnsupportedError(f"HorizonRT not support these cpu operators: {', '.join(found)}")


def refuse_unknown_shapes(optimized: ir.Model) -> None:
    """Refuse a model with a shape that depends on the data: nothing can be placed behind it.

    Raises:
        UnsupportedError: names the operators that the runtime lacks where there are some, else the tensor.
    """
    for node in optimized.graph:
        for value in node.outputs:
            if value.name and static_shape(value) is None:
                refuse_cpu_operators(optimized)
                raise UnsupportedError(
                    f"tensor {value.name} of node {node.name} ({node.op_type}) has the shape {value.shape}, which "
                    "depends on the data; end the model before that node (output_nodes) and compute the "
                    "rest in the application"
                )


def refuse_uncompilable(quantized: ir.Model, march: Chip) -> None:
    """Refuse a quantised model that the original's compiler refuses.

    That is a DepthToSpace on bernoulli2 whose output channels are no multiple of 4 (reference/operators.md, Limits; the
    network min_shuffle).

    Raises:
        UnsupportedError: names the node and what is allowed.
    """
    multiple = march.limits.depth_to_space_multiple
    for node in quantized.graph:
        if node.op_type == "HzDepthToSpace" and shape_of(node.outputs[0])[-1] % multiple:
            raise UnsupportedError(
                f"output channel of {node.name} ({node.op_type}) must be a multiple of {multiple} on {march.name}, it "
                f"is {shape_of(node.outputs[0])[-1]}"
            )
