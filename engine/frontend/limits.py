"""What no later stage can represent: element types that the board's runtime lacks, operators in training mode."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import onnx_ir as ir

from engine.errors import UnsupportedError
from engine.ir import attribute

ELEMENT_TYPES = frozenset(
    {
        ir.DataType.FLOAT,
        ir.DataType.FLOAT16,
        ir.DataType.DOUBLE,
        ir.DataType.INT8,
        ir.DataType.UINT8,
        ir.DataType.INT16,
        ir.DataType.UINT16,
        ir.DataType.INT32,
        ir.DataType.UINT32,
        ir.DataType.INT64,
        ir.DataType.UINT64,
        ir.DataType.BOOL,
    }
)
"""Types of tensors that a ``.bin`` can hold (docs/bin_format.md)."""


def refuse_unsupported(model: ir.Model, path: Path) -> None:
    """Refuse models that can be read but never converted.

    Raises:
        UnsupportedError: a tensor is of a type outside :data:`ELEMENT_TYPES`; an input or output is no tensor, an
            output is listed twice or is an input; a ``BatchNormalization`` or ``Dropout`` is in training mode, where it
            takes its statistics from the data of each inference, or leaves out numbers at random; an ``LSTM``,
            ``GRU`` or ``RNN`` has its batch first (ONNX Runtime lacks it).
    """
    graph = model.graph
    for value in (*graph.inputs, *graph.outputs):
        if not isinstance(value.type, ir.TensorType):
            raise UnsupportedError(f"{path}: {value.name!r} is of type {value.type}; only tensors are supported")
    for index, value in enumerate(graph.outputs):
        if value in graph.outputs[:index]:
            raise UnsupportedError(f"{path}: output {value.name!r} is listed twice")
    for value in graph.inputs:
        if value.is_graph_output():
            raise UnsupportedError(
                f"{path}: output {value.name!r} is an input of the model as it is; take it out of the outputs, or copy "
                "it by an Identity"
            )
    _check_types((*graph.inputs, *graph.initializers.values()), path)
    for node in graph:
        _check_types(node.outputs, path)
        if node.op_type == "BatchNormalization" and attribute(node, "training_mode", 0):
            raise UnsupportedError(
                f"{path}: node {node.name!r} (BatchNormalization) is in training mode; export the model for inference "
                "(training_mode 0)"
            )
        if node.op_type == "Dropout" and _drops(node):
            raise UnsupportedError(
                f"{path}: node {node.name!r} (Dropout) is in training mode, so that it leaves out other numbers in "
                "every inference; export the model for inference (model.eval() in torch)"
            )
        if node.op_type in ("LSTM", "GRU", "RNN") and attribute(node, "layout", 0):
            raise UnsupportedError(
                f"{path}: node {node.name!r} ({node.op_type}) has layout 1; export it with layout 0 and Transposes "
                "around it (torch: batch_first)"
            )


def _drops(node: ir.Node) -> bool:
    """Whether a ``Dropout`` drops, or a tensor that is no constant decides it."""
    ratio, mode = ((*node.inputs, None, None))[1:3]
    if mode is None:
        return False
    decided = ir.convenience.get_const_tensor(mode)
    share = None if ratio is None else ir.convenience.get_const_tensor(ratio)
    is_on = decided is None or bool(decided.numpy())
    return is_on and (share is None or float(share.numpy()) > 0)


def _check_types(values: Iterable[ir.Value], path: Path) -> None:
    for value in values:
        kind = value.dtype
        if isinstance(value.type, ir.TensorType) and kind is not None and kind not in ELEMENT_TYPES:
            allowed = ", ".join(sorted(each.name.lower() for each in ELEMENT_TYPES))
            raise UnsupportedError(
                f"{path}: tensor {value.name!r} is of type {kind.name.lower()}; supported are {allowed}"
            )
