"""Shapes after every pass, and passes that never come to an end."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx_ir.passes import PassBase

from engine.chips import MEASURED_MARCHES, load_chip
from engine.errors import OptimizeError
from engine.ir import HORIZON_DOMAIN
from engine.optimize import pipeline
from engine.optimize.base import NodePass, bypass, graph_of, make_node, substitute
from engine.optimize.checked import CheckedPasses
from engine.optimize.contract import CONSTANTS_ARE_INITIALIZERS
from tests.engine.optimize.equivalence import build
from tests.engine.optimize.networks import MAP, node

STEPS = {
    "CancelAroundReshape",
    "ReshapeBeforeTransposes",
    "ReshapeToTranspose",
    "CollapseShuffle",
    "FoldPadIntoConv",
    "MergeReshapes",
    "TransposeToReshape",
    "WhereToProducts",
}
"""Passes that take one of several steps in a row, or what is worth it: what they leave the next round may take."""


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


class Looks(OfTransposes):
    """Counts how often it is asked, and changes nothing."""

    def __init__(self) -> None:
        self.asked = 0

    def rewrite(self, node: ir.Node) -> bool:
        self.asked += 1
        return False


def test_a_pass_is_not_asked_again_before_something_has_changed() -> None:
    looks, model = Looks(), transposed()
    checked = CheckedPasses(model)
    checked.settle([looks])
    once = looks.asked
    assert once > 0
    checked.run([looks])
    assert looks.asked == once
    checked.run([Renames(), looks])
    assert looks.asked == 2 * once


class PutsLast(OfTransposes):
    """Moves it behind the node that reads it."""

    def rewrite(self, node: ir.Node) -> bool:
        if node.name != "t":
            return False
        graph = graph_of(node)
        graph.remove(node)
        graph.append(node)
        return True


class ForgetsTheSecond(OfTransposes):
    """Promises to leave no transpose and touches none but the first."""

    def rewrite(self, node: ir.Node) -> bool:
        return node.name == "t" and bypass(node)

    def remains(self, node: ir.Node) -> bool:
        return True


class LeavesConstants(OfTransposes):
    """Writes a constant as a node."""

    gives = (CONSTANTS_ARE_INITIALIZERS,)

    def rewrite(self, node: ir.Node) -> bool:
        value = ir.AttrTensor("value", ir.tensor(np.zeros(1, np.float32)))
        graph_of(node).insert_before(node, ir.node("Constant", [], {"value": value}, name=f"c_{node.name}"))
        return False


def chain() -> ir.Model:
    nodes = [node("Transpose", "x", "z", name="t", perm=[0, 1, 2, 3]), node("Transpose", "z", "y", name="u")]
    return build(nodes, MAP, ["y"])


def test_a_node_behind_its_reader_is_found() -> None:
    with pytest.raises(OptimizeError, match=r"pass PutsLast: node u \(Transpose\) reads z, which no node before it"):
        CheckedPasses(chain()).run([PutsLast()])


def test_what_a_pass_does_not_ensure_is_found_and_named() -> None:
    with pytest.raises(OptimizeError, match=r"pass ForgetsTheSecond ensures that nothing is left to do, but node u"):
        CheckedPasses(chain()).run([ForgetsTheSecond()])
    with pytest.raises(OptimizeError, match=r"LeavesConstants ensures that constants are initializers, but node c_t"):
        CheckedPasses(chain()).run([LeavesConstants()])


def test_what_a_pass_requires_is_checked_before_it_runs() -> None:
    model = chain()
    LeavesConstants().call(model)
    with pytest.raises(
        OptimizeError, match=r"Renames requires that constants are initializers, but node c_t \(Constant"
    ):
        CheckedPasses(model).run([Renames()])
    assert "t_" not in {each.name for each in model.graph}


@pytest.mark.parametrize(("name", "message"), [("", "has no name"), ("u", "has the name u of another one")])
def test_a_graph_without_names_is_refused(name: str, message: str) -> None:
    model = chain()
    model.graph[0].name = name
    with pytest.raises(OptimizeError, match=message):
        CheckedPasses(model)


@pytest.mark.parametrize("march", MEASURED_MARCHES)
def test_every_pass_states_a_condition(march: str) -> None:
    """What it requires, and what it ensures of its result unless it is one step of several in a row."""
    for each in pipeline(load_chip(march)):
        states = [type(each).requires, type(each).ensures] != [PassBase.requires, PassBase.ensures]
        assert states, f"{type(each).__name__} requires and ensures nothing"
    silent = {
        type(each).__name__
        for each in pipeline(load_chip(march))
        if isinstance(each, NodePass) and type(each).remains is NodePass.remains
    }
    assert silent == STEPS
