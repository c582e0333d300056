"""Quantised models made by hand, for tests of the simulators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

Array = NDArray[Any]


def node_model(
    op_type: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any],
    constants: Mapping[int, Array] | None = None,
    *,
    domain: str = "horizon",
    output: tuple[Any, Sequence[int]] | None = None,
    opset: int = 13,
) -> ir.Model:
    """A model of one node.

    Args:
        op_type: its type.
        inputs: one sample of every activation input, by position; None at the positions of constants.
        attributes: its attributes.
        constants: initializers by position.
        domain: of the node.
        output: dtype and shape of the result; None to take both from the first input.
        opset: of ONNX's own operators.
    """
    constants = constants or {}
    count = max([len(inputs) - 1, *constants]) + 1
    names = [f"c{k}" if k in constants else f"x{k}" for k in range(count)]
    fed = [
        onnx.helper.make_tensor_value_info(f"x{k}", _element(x.dtype), x.shape)
        for k, x in enumerate(inputs)
        if x is not None
    ]
    first = next(x for x in inputs if x is not None)
    dtype, shape = output or (first.dtype, first.shape)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op_type, names, ["y"], "node", domain=domain, **attributes)],
        "one_node",
        fed,
        [onnx.helper.make_tensor_value_info("y", _element(np.dtype(dtype)), shape)],
        [onnx.numpy_helper.from_array(array, f"c{k}") for k, array in constants.items()],
    )
    opsets = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("horizon", 1)]
    return ir.from_proto(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8))


def _element(dtype: np.dtype[Any]) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
