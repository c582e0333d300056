"""Constants that are computed, within a budget: a few lines of a model can describe more than memory holds.

The library that computes them is imported, and walks over a model, where a node may be changed by it. Shapes are
inferred, which is most of its work, where one is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import UnsupportedError
from engine.limits import beyond, limit

_GROWING = frozenset({"ConstantOfShape", "Expand", "OneHot", "Pad", "Range", "Resize", "Tile", "Upsample"})
"""Operators whose values, and not whose shapes, say how large their result is."""


class FoldingBudget:
    """What the computation of constants in one model may cost.

    Args:
        model: its own initializers may be computed with once more, whatever they take.
        largest: elements of the largest constant that is computed.
    """

    def __init__(self, model: ir.Model, largest: int) -> None:
        own = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value)
        self._left = limit("FOLDED_BYTES") + own
        self._largest = largest
        self.refused = ""
        """Name of the first node that the budget did not suffice for."""

    def affords(self, node: ir.Node) -> bool:
        """Whether the results of ``node`` may be computed; what they take is subtracted."""
        if self.refused:
            return False
        total = 0
        for value in node.outputs:
            shape = None if value.shape is None else value.shape.numpy() if value.shape.is_static() else None
            if shape is None:
                if node.op_type in _GROWING:
                    return False
                continue
            if prod(shape) > self._largest:
                return False
            total += int(prod(shape) * (4 if value.dtype is None else value.dtype.itemsize))
        if total > self._left:
            self.refused = str(node.name or node.outputs[0].name)
            return False
        self._left -= total
        return True


REPLACED = frozenset(
    {"Cast", "CastLike", "ConcatFromSequence", "Dropout", "Expand", "Identity", "If"}
    | {"SequenceAt", "SequenceConstruct", "Shape", "Size", "SplitToSequence"}
)
"""Operators that the library may replace or remove whatever they read."""

FOLLOWED = frozenset({"Abs", "Add", "Concat", "Gather", "Reshape", "Squeeze"})
"""Operators through which it follows the values of shapes. With results of floats, it replaces a ``Concat`` of one
operand or an empty one, and a ``Reshape`` to the shape that is there."""


def _may_change(node: ir.Node) -> bool:
    """Whether the library may change ``node`` or what reads it, the shapes of its results being known."""
    if any(attribute.type in _GRAPHS for attribute in node.attributes.values()):
        return True
    if all(value is None or (value.const_value is not None and not value.is_graph_input()) for value in node.inputs):
        return True
    if node.op_type not in FOLLOWED:
        return node.op_type in REPLACED
    kind = node.outputs[0].dtype
    if kind is None or not kind.is_floating_point():
        return True
    shapes = [_static(value) for value in node.inputs if value is not None]
    if node.op_type == "Concat":
        return len(shapes) < _LEAST_OPERANDS or any(shape is None or 0 in shape for shape in shapes)
    return node.op_type == "Reshape" and shapes[0] in (None, _static(node.outputs[0]))


_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
_LEAST_OPERANDS = 2


def _static(value: ir.Value) -> tuple[int | ir.SymbolicDim, ...] | None:
    return value.shape.dims if value.shape is not None and value.shape.is_static() else None


def _lacks_shapes(node: ir.Node) -> bool:
    """Whether type or shape of a result of ``node``, or of what it holds, may be unknown."""
    holds_graphs = any(attribute.type in _GRAPHS for attribute in node.attributes.values())
    return holds_graphs or any(value.dtype is None or _static(value) is None for value in node.outputs if value.name)


def folded(model: ir.Model, largest: int) -> bool:
    """Compute all that is constant in ``model``, in place; whether something was.

    Args:
        model: shapes that become known on the way are completed; NaN and infinite values are results like any other.
        largest: elements of the largest constant that is computed; nodes of larger ones stay.

    Raises:
        UnsupportedError: all constants together take more than the bound ``FOLDED_BYTES``, or one cannot be computed.
    """
    nodes = [*model.graph, *(node for function in model.functions.values() for node in function)]
    lacks_shapes = any(map(_lacks_shapes, nodes))
    if not lacks_shapes and not any(map(_may_change, nodes)):
        return False
    from onnxscript.optimizer import fold_constants  # 0.1 s and 23 MB that most models never need

    budget, changed, goes_on = FoldingBudget(model, largest), False, True
    try:
        with np.errstate(all="ignore"):
            while goes_on:
                result = fold_constants(
                    model,
                    onnx_shape_inference=lacks_shapes,
                    input_size_limit=largest,
                    output_size_limit=largest,
                    should_fold=lambda node: not _is_rounded_once(node) and budget.affords(node),
                )
                goes_on = _compute_functions(model, budget)
                changed |= goes_on or bool(result.modified)
    except RuntimeError as error:  # of the library, for operators that it has rules of its own for
        raise UnsupportedError(f"the constants of the model cannot be computed: {error}") from error
    _write_constants_as_tensors(model)
    _write_splits_for_opset(model)
    if budget.refused:
        raise UnsupportedError(f"node {budget.refused!r}: its result and other constants take {beyond('FOLDED_BYTES')}")
    return changed


_ROUNDED_ONCE: Mapping[str, Callable[..., NDArray[np.float64]]] = MappingProxyType(
    {"Cos": np.cos, "Exp": np.exp, "Log": np.log, "Pow": np.power, "Sin": np.sin}
)
"""Functions of floats that :func:`_compute_functions` computes."""


def _compute_functions(model: ir.Model, budget: FoldingBudget) -> bool:
    """Let every function of constants be its value: that of float64 numbers, rounded once; whether there was one.

    The library's float32 functions have other last bits, on some CPUs alone (27 of 27 powers asked that differ there,
    such as roots of the width of a head, by which attention divides; 19 of 19 single numbers of the other functions).
    """
    found = False
    for node in tuple(model.graph):
        arrays = [ir.convenience.get_const_tensor(value) for value in node.inputs if value is not None]
        if not _is_rounded_once(node) or not all(arrays) or not budget.affords(node):
            continue
        numbers = [array.numpy() for array in arrays if array is not None]
        result = _ROUNDED_ONCE[node.op_type](*(array.astype(np.float64) for array in numbers)).astype(numbers[0].dtype)
        old = node.outputs[0]
        tensor = ir.tensor(np.asarray(result), name=old.name)
        value = ir.Value(name=old.name, type=old.type, shape=ir.Shape(result.shape), const_value=tensor)
        constant = ir.node("Constant", [], {"value": ir.AttrTensor("value", tensor)}, outputs=[value], name=node.name)
        ir.convenience.replace_nodes_and_values(model.graph, node, [node], [constant], [old], [value])
        found = True
    return found


def _is_rounded_once(node: ir.Node) -> bool:
    return node.op_type in _ROUNDED_ONCE and node.domain in ("", "ai.onnx")


def _write_constants_as_tensors(model: ir.Model) -> None:
    """Let every ``Constant`` have its ``value``: the library writes ``value_ints``, which opsets below 12 lack."""
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or "value" in node.attributes:
            continue
        tensor = ir.convenience.get_const_tensor(node.outputs[0])
        if tensor is not None:
            node.attributes.clear()
            node.attributes.add(ir.AttrTensor("value", tensor))


def _write_splits_for_opset(model: ir.Model) -> None:
    """Let every ``Split`` say its sizes as its opset does: the library writes those of sequences as in opset 18."""
    opset = model.opset_imports.get("", model.opset_imports.get("ai.onnx", 0))
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.op_type != "Split" or node.domain not in ("", "ai.onnx"):
            continue
        if opset < _SPLIT_COUNTS:
            node.attributes.pop("num_outputs", None)
        sizes = ir.convenience.get_const_tensor(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] else None
        if opset < _SPLIT_TAKES_SIZES and sizes is not None:
            node.attributes["split"] = ir.AttrInt64s("split", [int(size) for size in sizes.numpy()])
            node.resize_inputs(1)


_SPLIT_TAKES_SIZES, _SPLIT_COUNTS = 13, 18
"""First opsets in which sizes are an input, and in which equal parts are counted by ``num_outputs``."""
