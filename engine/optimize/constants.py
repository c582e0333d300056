"""Constants: lifted to initializers, computed where all inputs are known."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from engine.frontend.folding import folded
from engine.limits import limit
from engine.optimize.base import add_initializer, initializer_of, is_standard
from engine.optimize.contract import CONSTANTS_ARE_INITIALIZERS, GraphPass

MAX_FOLDED_ELEMENTS = 1 << 26
"""Largest constant that is computed: an expanded constant may not outgrow memory."""


class LiftConstants(LiftConstantsToInitializersPass):
    """``Constant`` nodes become initializers under the name of their output; those that are graph outputs stay."""

    def __init__(self) -> None:
        super().__init__(lift_all_constants=True, size_limit=0)

    def ensures(self, model: ir.Model) -> None:
        """Check that no node but a graph output is a ``Constant``.

        Raises:
            PostconditionError: one is.
        """
        breach = CONSTANTS_ARE_INITIALIZERS.breach(model)
        if breach is not None:
            raise ir.passes.PostconditionError(f"ensures that {breach}")


class FoldConstants(GraphPass):
    """Nodes whose inputs are all constant are computed; ``Shape`` of a static tensor and the like count as constant.

    Results are initializers. Also completes the shapes of all tensors. NaN and infinite values are results like any
    other.
    """

    gives = (CONSTANTS_ARE_INITIALIZERS,)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = folded(model, MAX_FOLDED_ELEMENTS)
        LiftConstants()(model)
        return ir.passes.PassResult(model, modified)


class ConstantOutputs(GraphPass):
    """A graph output that is an initializer becomes that of a ``Constant``: every output is one of a node.

    Where nodes read the initializer too, they read one of the name ``<output>_constant``.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        found = dict.fromkeys(value for value in model.graph.outputs if value.is_initializer())
        for value in found:
            _compute(model.graph, value)
        return ir.passes.PassResult(model, bool(found))

    def ensures(self, model: ir.Model) -> None:
        """Check that no output is an initializer.

        Raises:
            PostconditionError: one is.
        """
        for value in model.graph.outputs:
            if value.is_initializer():
                raise ir.passes.PostconditionError(f"ensures that outputs are of nodes, but {value.name} is a constant")


class OwnWeights(GraphPass):
    """Every ``Conv`` that shares its weight with others reads one of its own, ``<weight>_<convolution>``.

    Biases stay shared. All 15 heads of ``fpn_retina_gn`` and ``fpn_ssd`` and 248 steps of ``crnn_lstm``. Weights stay
    shared where copies would take more than the bound ``FOLDED_BYTES``: files would grow with every convolution.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        found = [(node, node.inputs[1]) for node in model.graph if is_standard(node, "Conv") and _shares_weight(node)]
        shared = [
            (node, value, array) for node, value in found if value and (array := initializer_of(value)) is not None
        ]
        if sum(array.nbytes for _, _, array in shared) > limit("FOLDED_BYTES"):
            return ir.passes.PassResult(model, False)
        for node, value, array in shared:
            node.replace_input_with(1, add_initializer(model.graph, f"{value.name}_{node.name}", array))
        return ir.passes.PassResult(model, bool(shared))


def _shares_weight(conv: ir.Node) -> bool:
    """Whether another convolution has the constant weight of ``conv``."""
    weight = conv.inputs[1]
    if weight is None or initializer_of(weight) is None:
        return False
    return any(usage.node is not conv and is_standard(usage.node, "Conv") for usage in weight.uses())


def _compute(graph: ir.Graph, value: ir.Value) -> None:
    tensor = value.const_value
    if tensor is None:
        raise ValueError(f"initializer {value.name} has no value")
    name = str(value.name)
    output = ir.Value(name=name, type=value.type, shape=value.shape)
    node = ir.node("Constant", [], {"value": ir.AttrTensor("value", tensor)}, outputs=[output], name=f"{name}_Constant")
    if value.uses():
        copy = add_initializer(graph, f"{name}_constant", tensor.numpy())
        for user, index in tuple(value.uses()):
            user.replace_input_with(index, copy)
    graph.outputs[:] = [output if other is value else other for other in graph.outputs]
    del graph.initializers[name]
    graph.append(node)
