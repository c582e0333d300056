"""Shapes after every pass, and passes that never come to an end."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from engine.errors import OptimizeError
from engine.ir import HORIZON_DOMAIN
from engine.optimize.base import NodePass, make_node, substitute
from engine.optimize.checked import CheckedPasses
from tests.engine.optimize.equivalence import build
from tests.engine.optimize.networks import MAP, node


class OfTransposes(NodePass):
    """Changes every transpose."""

    op_types = frozenset({"Transpose"})

    def rewrite(self, node: ir.Node) -> bool:
        raise NotImplementedError


class WritesPerm(OfTransposes):
    """Gives it another permutation and leaves its result as it is."""

    def __init__(self, perm: list[int]) -> None:
        self.perm = perm

    def rewrite(self, node: ir.Node) -> bool:
        node.attributes["perm"] = ir.AttrInt64s("perm", self.perm)
        return True


class Renames(OfTransposes):
    """Changes something in every round."""

    def rewrite(self, node: ir.Node) -> bool:
        node.name = f"{node.name}_"
        return True


class PutsSwish(OfTransposes):
    """Puts an operator that keeps the shape where it changes."""

    def rewrite(self, node: ir.Node) -> bool:
        result = node.outputs[0]
        swish = make_node("HzSwish", [node.inputs[0]], name="swish", output="s", like=result, domain=HORIZON_DOMAIN)
        substitute(node, [swish])
        return True


class ForgetsShape(OfTransposes):
    """Leaves a result without a shape."""

    def rewrite(self, node: ir.Node) -> bool:
        node.outputs[0].shape = None
        return True


def transposed() -> ir.Model:
    return build([node("Transpose", "x", "y", name="t", perm=[0, 2, 3, 1])], MAP, ["y"])


@pytest.mark.parametrize("perm", [[0, 2, 1], [0, 1, 2, 3]])
def test_wrong_permutation_is_found_in_the_pass_that_wrote_it(perm: list[int]) -> None:
    with pytest.raises(OptimizeError, match=r"pass WritesPerm: node t \(Transpose\)"):
        CheckedPasses(transposed()).run([WritesPerm(perm)])


def test_operators_of_horizon_are_checked_too() -> None:
    with pytest.raises(OptimizeError, match=r"pass PutsSwish: node swish \(HzSwish\) .* not \(1, 8, 8, 4\)"):
        CheckedPasses(transposed()).run([PutsSwish()])


def test_right_passes_run_and_name_themselves() -> None:
    assert CheckedPasses(transposed()).run([Renames(), WritesPerm([0, 3, 2, 1])]) == ["Renames", "WritesPerm"]


def test_missing_shapes_are_inferred() -> None:
    model = transposed()
    CheckedPasses(model).run([ForgetsShape()])
    assert model.graph[0].outputs[0].shape == (1, 8, 8, 4)


def test_passes_that_never_end_are_named() -> None:
    with pytest.raises(OptimizeError, match="Renames still change the model after 100 rounds"):
        CheckedPasses(transposed()).settle([Renames()])
