"""Models without their weights, for users who may not pass their weights on."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

LARGEST_KEPT = 8
"""Constants with at most this number of elements are kept: shapes, limits, slopes."""

_FLOATS = "f"


def without_weights(model: ir.Model, *, random: bool) -> ir.Model:
    """A copy of ``model`` in which larger constants hold nothing of the original.

    Integer constants of a float model (shapes, indices, axes) decide its structure and are kept.

    Args:
        model: a float, calibrated or quantised model.
        random: whether float constants become random numbers, so that a float model can still be converted; else all
            larger constants become zeros.
    """
    model = model.clone()
    model.doc_string = model.graph.doc_string = None  # exporters write paths and lines of the user's sources there
    for value in model.graph.initializers.values():
        if value.const_value is not None:
            value.const_value = _replaced(value.const_value, str(value.name), random)
    for node in model.graph.all_nodes():
        node.doc_string = None
        if node.op_type != "Constant":
            continue
        for name, attribute in list(node.attributes.items()):
            if isinstance(attribute.value, ir.TensorProtocol):
                node.attributes[name] = ir.AttrTensor(name, _replaced(attribute.value, str(node.name), random))
    return model


def _replaced(tensor: ir.TensorProtocol, name: str, random: bool) -> ir.TensorProtocol:
    array = tensor.numpy()
    if array.size <= LARGEST_KEPT or (random and array.dtype.kind != _FLOATS):
        return tensor
    content = _random(array, name) if random else np.zeros_like(array)
    return ir.tensor(content, dtype=tensor.dtype, name=tensor.name)


def _random(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Numbers that depend on ``name`` and shape alone.

    Vectors, which are biases, variances, slopes and scales, become positive; weights have a magnitude that keeps
    activations in range.
    """
    seed = int.from_bytes(hashlib.sha256(f"{name} {array.shape}".encode()).digest()[:8], "little")
    generator = np.random.default_rng(seed)
    if array.ndim <= 1:
        numbers = generator.uniform(0.5, 1.5, array.shape)
    else:
        numbers = generator.standard_normal(array.shape) / np.sqrt(max(1, array.size // array.shape[0]))
    return numbers.astype(array.dtype)
