"""Opset 9 in terms of opset 10, so that no later stage meets it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.frontend.onnx import name_nodes
from engine.ir import attribute
from engine.optimize.base import add_initializer, is_standard
from engine.optimize.contract import Condition, GraphPass

_LEAST_OPSET = 10


class ConvertOpset9(GraphPass):
    """Models of opset 9 become models of opset 10.

    Only three operators mean something else there: ``Upsample`` is ``Resize``; ``Slice`` and ``TopK`` take as inputs
    what were attributes. The ``Resize`` is a new node, named like one without a name, as by ``onnx.version_converter``
    that the original uses.
    """

    needs = ()
    gives = (Condition("no node is an Upsample", lambda node: is_standard(node, "Upsample")),)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        if model.opset_imports.get("") != 9:
            return ir.passes.PassResult(model, False)
        for node in tuple(model.graph):
            match node.op_type:
                case "Upsample":
                    node.op_type, node.name = "Resize", ""
                case "Slice":
                    starts = attribute(node, "starts", ())
                    axes = attribute(node, "axes", tuple(range(len(starts))))
                    self._to_inputs(
                        model.graph, node, {"starts": starts, "ends": attribute(node, "ends", ()), "axes": axes}
                    )
                case "TopK":
                    self._to_inputs(model.graph, node, {"k": (attribute(node, "k", 0),)})
        model.opset_imports[""] = _LEAST_OPSET
        name_nodes(model)
        return ir.passes.PassResult(model, True)

    def ensures(self, model: ir.Model) -> None:
        """Check the opset too.

        Raises:
            PostconditionError: it is 9 or older, or a condition does not hold.
        """
        super().ensures(model)
        opset = model.opset_imports.get("", 0)
        if opset < _LEAST_OPSET:
            raise ir.passes.PostconditionError(f"ensures that the opset is {_LEAST_OPSET} or later, but it is {opset}")

    @staticmethod
    def _to_inputs(graph: ir.Graph, node: ir.Node, values: dict[str, tuple[int, ...]]) -> None:
        """Replace attributes of ``node`` by constant inputs behind the first, in the order of ``values``."""
        node.resize_inputs(1 + len(values))
        for index, (name, numbers) in enumerate(values.items(), start=1):
            node.attributes.pop(name, None)
            node.replace_input_with(index, add_initializer(graph, f"{node.name}_{name}", np.asarray(numbers, np.int64)))
