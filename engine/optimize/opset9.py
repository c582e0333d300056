"""Opset 9 in terms of opset 10, so that no later stage meets it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.frontend.onnx import name_nodes
from engine.ir import attribute
from engine.optimize.base import add_initializer


class ConvertOpset9(ir.passes.InPlacePass):
    """Models of opset 9 become models of opset 10.

    Only three operators mean something else there: ``Upsample`` is ``Resize``; ``Slice`` and ``TopK`` take as inputs
    what were attributes. The ``Resize`` is a new node, named like one without a name, as by ``onnx.version_converter``
    that the original uses.
    """

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
        model.opset_imports[""] = 10
        name_nodes(model)
        return ir.passes.PassResult(model, True)

    @staticmethod
    def _to_inputs(graph: ir.Graph, node: ir.Node, values: dict[str, tuple[int, ...]]) -> None:
        """Replace attributes of ``node`` by constant inputs behind the first, in the order of ``values``."""
        node.resize_inputs(1 + len(values))
        for index, (name, numbers) in enumerate(values.items(), start=1):
            node.attributes.pop(name, None)
            node.replace_input_with(index, add_initializer(graph, f"{node.name}_{name}", np.asarray(numbers, np.int64)))
