"""What a structure consists of."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx


def parameters(model: onnx.ModelProto) -> int:
    """Number of float weights, without scalars, which are constants of activations and normalisations."""
    tensors = (tensor for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT)
    return sum(int(np.prod(tensor.dims)) for tensor in tensors if tensor.dims)


def operators(model: onnx.ModelProto) -> dict[str, int]:
    """Number of nodes by type."""
    return dict(Counter(node.op_type for node in model.graph.node))


def outputs(model: onnx.ModelProto) -> list[list[int]]:
    """Shapes of the outputs."""
    return [[dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in model.graph.output]
