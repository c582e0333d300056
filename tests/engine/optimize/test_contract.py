"""What passes require and ensure: the condition that is broken, and the node that breaks it, are named."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from engine.optimize.contract import CONSTANTS_ARE_INITIALIZERS, Condition, GraphPass
from tests.engine.optimize.equivalence import build
from tests.engine.optimize.networks import MAP, node

NO_NEG = Condition("nothing is negated", lambda node: node.op_type == "Neg")


class Nothing(GraphPass):
    """Requires initializers, ensures that nothing is negated, and changes nothing."""

    gives = (NO_NEG,)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        return ir.passes.PassResult(model, modified=False)


def of(*kinds: str) -> ir.Model:
    names = ["x", *(f"t{index}" for index in range(1, len(kinds))), "y"]
    return build([node(kind, names[i], names[i + 1], name=f"n{i}") for i, kind in enumerate(kinds)], MAP, ["y"])


def with_constant() -> ir.Model:
    nodes = [node("Constant", "", "one", name="c", value_float=1.0), node("Add", "x one", name="a")]
    return build(nodes, MAP, ["y"])


def test_the_first_node_that_breaks_a_condition_is_named() -> None:
    assert NO_NEG.breach(of("Relu", "Abs")) is None
    assert NO_NEG.breach(of("Relu", "Neg", "Neg")) == "nothing is negated, but node n1 (Neg) breaks that"
    assert CONSTANTS_ARE_INITIALIZERS.breach(with_constant()) == (
        "constants are initializers, but node c (Constant) breaks that"
    )


def test_a_constant_of_another_domain_is_none() -> None:
    model = with_constant()
    model.graph[0].domain = "another"
    assert CONSTANTS_ARE_INITIALIZERS.breach(model) is None


def test_passes_are_held_to_both() -> None:
    assert not Nothing()(of("Relu")).modified
    with pytest.raises(ir.passes.PreconditionError, match="requires that constants are initializers, but node c"):
        Nothing()(with_constant())
    with pytest.raises(ir.passes.PostconditionError, match=r"ensures that nothing is negated, but node n0 \(Neg\)"):
        Nothing()(of("Neg"))
