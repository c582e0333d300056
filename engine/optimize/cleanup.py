"""Nodes that change nothing are removed; reshaping operators become ``Reshape``."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from engine.graph import sole_reader
from engine.ir import MARK_STATE, attribute, static_shape
from engine.optimize.base import (
    NodePass,
    absorb_next,
    add_initializer,
    bypass,
    can_bypass,
    graph_of,
    initializer_of,
    ints,
    is_standard,
    make_node,
    padding_of,
    refuse_equal_outputs,
    substitute,
)
from engine.optimize.contract import Condition
from engine.terms import Compatibility


class RemoveNoOps(NodePass):
    """``Identity``, ``Dropout``, and operators that leave shape, type and values as they are.

    One between two outputs is refused (:func:`~engine.optimize.base.refuse_equal_outputs`), as in the original (nine
    operators asked); with ``compatibility: clean`` it stays.
    """

    op_types = frozenset(
        {
            "Identity",
            "Dropout",
            "Cast",
            "Reshape",
            "Transpose",
            "Pad",
            "Concat",
            "Sum",
            "Slice",
            "Expand",
            "Tile",
            "Gather",
        }
    )

    def __init__(self, compatibility: Compatibility = Compatibility.ORIGINAL) -> None:
        self._refuses = compatibility is Compatibility.ORIGINAL

    def rewrite(self, node: ir.Node) -> bool:
        source, result = node.inputs[0], node.outputs[0]
        if self._refuses and source is not None and result.is_graph_output() and self.is_no_op(node):
            refuse_equal_outputs(source, result)
        return self.remains(node) and bypass(node)

    def remains(self, node: ir.Node) -> bool:
        """A node without effect that can be taken out."""
        if node.op_type == "Dropout" and len(node.outputs) > 1 and node.outputs[1].uses():
            return False
        return self.is_no_op(node) and can_bypass(node)

    def is_no_op(self, node: ir.Node) -> bool:
        """Whether the first output of ``node`` always equals its first input."""
        source, result = node.inputs[0], node.outputs[0]
        if source is None:
            return False
        before, after = static_shape(source), static_shape(result)
        match node.op_type:
            case "Identity" | "Dropout":
                return True
            case "Cast":
                return source.dtype is not None and source.dtype == attribute(node, "to")
            case "Transpose":
                perm = attribute(node, "perm")
                return perm is not None and list(perm) == list(range(len(perm)))
            case "Pad":
                padding = padding_of(node, len(before or ()))
                return before is not None and padding is not None and not any(padding.before + padding.after)
            case "Concat" | "Sum":
                return len(node.inputs) == 1
            case "Gather":
                return before is not None and before == after and self._gathers_all(node, before)
            case "Slice":
                return before is not None and before == after and self._steps_forward(node)
            case _:
                return before is not None and before == after

    @staticmethod
    def _gathers_all(node: ir.Node, shape: tuple[int, ...]) -> bool:
        indices = initializer_of(node.inputs[1])
        size = shape[attribute(node, "axis", 0)]
        return indices is not None and indices.shape == (size,) and np.array_equal(indices % size, np.arange(size))

    @staticmethod
    def _steps_forward(node: ir.Node) -> bool:
        if len(node.inputs) < 5 or node.inputs[4] is None:
            return True
        steps = initializer_of(node.inputs[4])
        return steps is not None and bool(np.all(steps > 0))


class RemoveCastPairs(NodePass):
    """A ``Cast`` to a type that holds the values of the original, followed by the ``Cast`` back.

    float16 counts as holding float32: its rounding is far below that of the quantisation. The original keeps such pairs
    on the CPU (asked with float16 and float64), so that they split a subgraph there. Pairs that truncate to integers
    stay, since dropping them changes what the network computes.
    """

    op_types = frozenset({"Cast"})

    exact: ClassVar[dict[ir.DataType, frozenset[ir.DataType]]] = {
        ir.DataType.FLOAT16: frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE}),
        ir.DataType.FLOAT: frozenset({ir.DataType.DOUBLE, ir.DataType.FLOAT16}),
        ir.DataType.INT8: frozenset({ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.FLOAT}),
        ir.DataType.UINT8: frozenset({ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.FLOAT}),
        ir.DataType.INT32: frozenset({ir.DataType.INT64, ir.DataType.DOUBLE}),
        ir.DataType.BOOL: frozenset(
            {ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.FLOAT}
        ),
    }
    """Types that represent the values of a type."""

    def rewrite(self, node: ir.Node) -> bool:
        source = self._source(node)
        if source is None:
            return False
        node.replace_input_with(0, source)
        return bypass(node)

    def remains(self, node: ir.Node) -> bool:
        """The second of a pair."""
        return self._source(node) is not None

    def _source(self, node: ir.Node) -> ir.Value | None:
        """What a ``Cast`` that ``node`` takes back was given; None where it takes none back."""
        value = node.inputs[0]
        first = value.producer() if value is not None else None
        if value is None or first is None or not is_standard(first, "Cast"):
            return None
        source = first.inputs[0]
        if source is None or source.dtype is None or source.dtype != attribute(node, "to"):
            return None
        return source if value.dtype in self.exact.get(source.dtype, ()) else None


class ReshapingToReshape(NodePass):
    """``Flatten``, ``Squeeze`` and ``Unsqueeze`` become ``Reshape`` to a constant shape, named as they were.

    That of a ``Flatten`` leaves the first dimension open (``[-1, 10]`` in SqueezeNet), so that it holds for any batch.
    """

    op_types = frozenset({"Flatten", "Squeeze", "Unsqueeze"})

    def rewrite(self, node: ir.Node) -> bool:
        source, shape = node.inputs[0], static_shape(node.outputs[0])
        if source is None or shape is None or node.name is None:
            return False
        dims = (-1, *shape[1:]) if node.op_type == "Flatten" else shape
        target = add_initializer(graph_of(node), f"{node.name}_{source.name}_shape", np.asarray(dims, np.int64))
        reshape = make_node(
            "Reshape", [source, target], name=node.name, output=f"{node.name}_reshaped", like=node.outputs[0]
        )
        substitute(node, [reshape])
        return True

    def remains(self, node: ir.Node) -> bool:
        """One whose result has a known shape."""
        return node.inputs[0] is not None and static_shape(node.outputs[0]) is not None


class MergeReshapes(NodePass):
    """Two ``Reshape`` in a row become one, with the first one's name and place, as in the original's graphs.

    Behind the movements of a round: two pass arithmetic one after the other (the names of ``min_fc``, ``vgg`` and
    ``senet_fc`` count them). Not where others read the first as well (the states of ``crnn_gru``, 32 times in two
    conversions, and ``min_gru``).
    """

    op_types = frozenset({"Reshape"})

    def rewrite(self, node: ir.Node) -> bool:
        first = node.inputs[0].producer() if node.inputs[0] is not None else None
        shape = static_shape(node.outputs[0])
        target = initializer_of(node.inputs[1])
        if not is_standard(first, "Reshape") or first is None or first.inputs[0] is None or shape is None:
            return False
        if target is None or bool(np.any(target == 0)):
            return False
        if sole_reader(first.outputs[0], once=True) is not node:
            return False
        first.replace_input_with(1, node.inputs[1])
        absorb_next(first, node)
        return True


class MergeTransposes(NodePass):
    """Two ``Transpose`` in a row become one."""

    op_types = frozenset({"Transpose"})

    def rewrite(self, node: ir.Node) -> bool:
        value = node.inputs[0]
        first = value.producer() if value is not None else None
        if not is_standard(first, "Transpose") or first is None or first.inputs[0] is None:
            return False
        reverse = tuple(range(len(static_shape(value) or ())))[::-1]
        inner, outer = ints(first, "perm", reverse), ints(node, "perm", reverse)
        if len(inner) != len(outer) or not inner:
            return False
        node.attributes["perm"] = ir.AttrInt64s("perm", [inner[axis] for axis in outer])
        node.replace_input_with(0, first.inputs[0])
        return True

    def remains(self, node: ir.Node) -> bool:
        """One that reads another, both with written permutations."""
        first = None if node.inputs[0] is None else node.inputs[0].producer()
        if first is None or not is_standard(first, "Transpose") or first.inputs[0] is None:
            return False
        inner, outer = ints(first, "perm", ()), ints(node, "perm", ())
        return bool(inner) and len(inner) == len(outer)


class RemoveUnusedNodes(RemoveUnusedNodesPass):
    """Nodes whose results are not read; a ``GRU`` remembers the name of a last state that is not."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        for node in model.graph:
            if is_standard(node, "GRU") and len(node.outputs) > 1 and node.outputs[1].name:
                node.metadata_props[MARK_STATE] = node.outputs[1].name
        return super().call(model)

    def ensures(self, model: ir.Model) -> None:
        """Check that every node has a result that is read or an output.

        Raises:
            PostconditionError: one has none.
        """
        breach = _EVERY_NODE_IS_USED.breach(model)
        if breach is not None:
            raise ir.passes.PostconditionError(f"ensures that {breach}")


def _is_unused(node: ir.Node) -> bool:
    return not any(value.uses() or value.is_graph_output() for value in node.outputs)


_EVERY_NODE_IS_USED = Condition("every node has a result that is read or an output", _is_unused)
