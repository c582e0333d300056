"""Softmax on the BPU: a chain of operators, on request only; one operator in files of the original for bernoulli2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnx_ir as ir

from engine.errors import UnsupportedError
from engine.graph.scales import ScaleSource, set_scale_source
from engine.ir import MARK_MADE, attribute, shape_of
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator
from engine.ops.core.bounds import NO_FLOAT_NODE, Bound, Case
from engine.ops.core.costs import CostKind
from engine.ops.core.float_nodes import given
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import DATA_FORMAT, Schema

if TYPE_CHECKING:
    from engine.chips import Chip

COMPOSITE = "HzSoftmax"
"""What the optimiser makes of a Softmax over the last axis between two ``Transpose`` that swap it with the channels."""

SINGLE_AXIS = 13
"""First opset in which a ``Softmax`` is over its axis alone; before, over all from there on."""
AXES_AS_INPUT = {"ReduceMax": 18, "ReduceSum": 13}
"""First opset whose reduction takes its axes as an input."""


MOVED_BY = frozenset({"Reshape", "Transpose"})
"""Movements of a Softmax's result that have been seen in front of what computes with it."""

FURTHEST_BELOW = 255
"""How far an int8 number can lie below another, the first entry of ``table_params``."""


class QuantizedSoftmax(QuantizedOperator):
    """``t / sum(t)`` along an axis, ``t = table_params[x - max(x) + 255]``: the BPU of bernoulli2 gives float32.

    The original makes it of a Softmax over the channels of a map that is int8 all the same, because another operator of
    the BPU reads it or gives it as a table does. ptqlab computes such a Softmax on the CPU, as all others there.
    Source: reference/arithmetic.md, additional operators.
    """

    op_type = "HzQuantizedSoftmax"
    float_types: ClassVar[tuple[str, ...]] = ()
    cost = CostKind.REDUCE
    rows = WHOLE_MAP
    instructions = Instructions.NONE
    attributes: ClassVar[Schema] = {
        "axis": Attribute("int", 3, "axis along which the results sum to 1"),
        "table_params": Attribute("ints", doc="round(127 exp(k scale)) for k from -255 to 0; the first is 0"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8. Outputs: float32, of the shape of x."""
        x, axis = np.asarray(inputs[0], np.int64), attributes["axis"]
        below = x - x.max(axis=axis, keepdims=True) + FURTHEST_BELOW
        powers = np.asarray(attributes["table_params"])[below]
        return (powers.astype(np.float32) / powers.sum(axis=axis, keepdims=True).astype(np.float32),)

    def error_bound(self, case: Case) -> Bound:
        return NO_FLOAT_NODE

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        x, axis = emit.cast(call.input(0).value, np.float32), int(call.attributes["axis"])
        largest = emit.op("ReduceMax", x, np.array([axis], np.int64), keepdims=1)
        below = emit.op("Add", emit.op("Sub", x, largest), np.float32(FURTHEST_BELOW))
        powers = emit.op("Gather", np.asarray(call.attributes["table_params"], np.float32), emit.cast(below, np.int64))
        return (emit.op("Div", powers, emit.op("ReduceSum", powers, np.array([axis], np.int64), keepdims=1)),)


class SoftmaxRule(FloatRule):
    """Softmax over the last axis as ReduceMax, Sub, Exp, ReduceSum, Reciprocal, Mul.

    So is one over the channels that two ``Transpose`` stand around (``HzSoftmax``): over axis 1, without them (the
    original's answers for ``dfl_conv`` and ``softargmin``, docs/evidence/field.md). Source: reference/operators.md,
    Placement.
    """

    op_types = ("Softmax", COMPOSITE)
    on_request = True

    def late_refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        axis, shape = softmax_axis(node), shape_of(given(node, 0))
        was_last = node.metadata_props.get(MARK_MADE) == "SinkReshapeBehindSoftmax"  # classes: 3 of 3 on bayes-e
        if node.op_type != COMPOSITE and axis != len(shape) - 1 and not was_last:
            return because(Code.LAST_AXIS, op_type="Softmax", axis=axis)
        length, limit = shape[axis], march.limits.reduce_length
        # The original's compiler fails on its ReduceSum (4104 values asked for on bayes-e).
        return because(Code.REDUCED_VALUES, length=length, limit=limit) if length > limit else None

    def decompose(self, node: ir.Node, wide: bool = False) -> Sequence[ir.Node]:
        """The six nodes, named like the original's; thresholds of what cannot exceed 1 are fixed.

        That of the result not between int16 parts if only movements read it (:data:`MOVED_BY`): those have it from data
        (0.319208 in the published log of YOLO11n, 0.136998 in that of YOLOv10n, two networks drawn; 1 in that of
        YOLOv13n and in 8 of 8 asked, which a convolution or a product reads, and in 5 of 5 that are outputs).
        """
        x, result = given(node, 0), node.outputs[0]
        shape = shape_of(x)
        axis = softmax_axis(node)
        reduced = tuple(1 if index == axis else size for index, size in enumerate(shape))
        parts = _Parts(node, x, axis)
        largest = parts.reduce("ReduceMax", "max", x, reduced)
        shifted = parts.add("Sub", "sub", [x, largest], shape)
        powers = parts.add("Exp", "exp", [shifted], shape, fixed=1.0)
        total = parts.reduce("ReduceSum", "reducesum", powers, reduced)
        inverse = parts.add("Reciprocal", "reciprocal", [total], reduced, fixed=1.0)
        readers = {user.op_type for user in result.consumers()}
        is_moved = bool(readers) and readers <= MOVED_BY
        parts.add("Mul", "mul", [powers, inverse], shape, output=result.name, fixed=None if wide and is_moved else 1.0)
        return parts.nodes

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        raise UnsupportedError(f"Softmax {chain[0].name}: placement decomposes it before it is lowered")


def softmax_axis(node: ir.Node) -> int:
    """The axis from which ``node`` normalises, not negative."""
    return normalised_axes(node, len(shape_of(given(node, 0))), _opset(node))[0]


def normalised_axes(node: ir.Node, rank: int, opset: int) -> tuple[int, ...]:
    """The axes that ``node`` normalises together, none negative.

    Raises:
        IndexError: its axis is none of a tensor of ``rank``.
    """
    axis = range(rank)[int(attribute(node, "axis", -1 if opset >= SINGLE_AXIS else 1))]
    return (axis,) if opset >= SINGLE_AXIS else tuple(range(axis, rank))


def _opset(node: ir.Node) -> int:
    graph = node.graph
    return graph.opset_imports.get("", 0) if isinstance(graph, ir.Graph) else 0


class _Parts:
    """Collects the nodes of one decomposition."""

    def __init__(self, node: ir.Node, x: ir.Value, axis: int) -> None:
        self.nodes: list[ir.Node] = []
        self._axis = axis
        self._node = node
        self._type = x.type
        self._opset = _opset(node)

    def add(
        self,
        op_type: str,
        part: str,
        inputs: Sequence[ir.Value],
        shape: Sequence[int],
        output: str | None = None,
        attributes: dict[str, Sequence[int]] | None = None,
        fixed: float | None = None,
    ) -> ir.Value:
        """Append a node whose output has a ``fixed`` threshold or one from data; its output."""
        name = self._node.outputs[0].name
        value = ir.Value(name=output or f"{name}_{part}", type=self._type, shape=ir.Shape(shape))
        label = "reducemax" if part == "max" else part
        node = ir.node(
            op_type,
            inputs,
            attributes or {},
            outputs=[value],
            name=f"{self._node.name}_{label}_FROM_QUANTIZED_SOFTMAX",
        )
        set_scale_source(node, ScaleSource(fixed=fixed))
        self.nodes.append(node)
        return value

    def reduce(self, op_type: str, part: str, x: ir.Value, shape: Sequence[int]) -> ir.Value:
        """A reduction over the axis; newer operator sets take it as an input."""
        axis = self._axis
        if self._opset < AXES_AS_INPUT[op_type]:
            return self.add(op_type, part, [x], shape, attributes={"axes": [axis]})
        tensor = ir.tensor([axis], dtype=ir.DataType.INT64)
        name = f"{self._node.name}_{part}_axes"
        axes = ir.Value(name=name, type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([1]), const_value=tensor)
        constant = ir.node("Constant", [], {"value": tensor}, outputs=[axes], name=name)
        self.nodes.append(constant)
        return self.add(op_type, part, [x, axes], shape)
