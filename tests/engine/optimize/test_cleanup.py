"""Cleaning up: constants, nodes that change nothing, reshapes, attributes, opset 9; the optimiser as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from engine.errors import UnsupportedError
from engine.optimize import optimize
from engine.optimize.cleanup import MergeReshapes, MergeTransposes, RemoveCastPairs, RemoveNoOps, ReshapingToReshape
from engine.terms import Compatibility
from tests.engine.optimize.equivalence import applied, build, census, optimized
from tests.engine.optimize.networks import MAP, node


class TestClean:
    def test_constants_are_folded(self) -> None:
        nodes = [
            node("Shape", "x", "s"),
            node("ConstantOfShape", "s", "zeros"),
            node("Constant", "", "one", value_float=1.0),
            node("Add", "zeros one", "ones"),
            node("Relu", "x", "r"),
            node("Max", "r ones"),
        ]
        assert census(optimized(build(nodes, MAP, ["y"]))) == {"Relu": 1, "Max": 1}

    def test_infinite_and_undefined_constants_are_values(self) -> None:
        constants = {"inf": np.float32(-np.inf), "zero": np.float32(0), "pick": np.array([True, False])}
        nodes = [
            node("Where", "pick inf zero", "mask"),
            node("Add", "x mask", "masked"),
            node("Softmax", "masked", axis=-1),
        ]
        after = optimized(build(nodes, {"x": (3, 2)}, ["y"], constants))
        assert census(after) == {"Add": 1, "Softmax": 1}
        mask = after.graph.initializers["Add_1mask_expand_dims"].const_value
        np.testing.assert_array_equal(mask.numpy(), [[-np.inf, 0]])

    @pytest.mark.parametrize("output_of_no_op", [True, False])
    def test_no_ops_are_dropped(self, output_of_no_op: bool) -> None:
        nodes = [
            node("Relu", "x", "r"),
            node("Identity", "r", "i"),
            node("Dropout", "i", "d"),
            node("Cast", "d", "k", to=1),
            node("Reshape", "k same", "s"),
            node("Transpose", "s", "t", perm=[0, 1, 2, 3]),
            node("Concat", "t", "u", axis=1),
            node("Slice", "u start end axes", "v"),
            node("Pad", "v pads", "y" if output_of_no_op else "p"),
        ]
        if not output_of_no_op:
            nodes.append(node("Sigmoid", "p"))
        constants = {
            "same": np.array([1, 4, 8, 8]),
            "start": np.array([0]),
            "end": np.array([99]),
            "axes": np.array([2]),
            "pads": np.zeros(8, np.int64),
        }
        after = optimized(build(nodes, MAP, ["y"], constants))
        assert census(after) == ({"Relu": 1} if output_of_no_op else {"Relu": 1, "Sigmoid": 1})
        assert not after.graph.initializers

    def test_an_identity_of_an_input_stays(self) -> None:
        assert census(optimized(build([node("Identity", "x")], MAP, ["y"]))) == {"Identity": 1}

    def test_slices_that_only_keep_the_shape_stay(self) -> None:
        constants = {"start": np.array([7]), "end": np.array([-9]), "axes": np.array([2]), "step": np.array([-1])}
        after = optimized(build([node("Slice", "x start end axes step")], MAP, ["y"], constants))
        assert census(after) == {"Slice": 1}

    def test_cropping_and_padding_at_once_stays(self) -> None:
        constants = {"pads": np.array([0, 0, 1, 0, 0, 0, -1, 0])}
        assert census(optimized(build([node("Pad", "x pads")], MAP, ["y"], constants))) == {"Pad": 1}

    def test_casts_that_lose_nothing_are_dropped(self) -> None:
        exact = [node("Cast", "x", "d", to=11), node("Cast", "d", "f", to=1), node("Relu", "f")]
        assert census(optimized(build(exact, MAP, ["y"]))) == {"Relu": 1}
        rounding = [node("Cast", "x", "d", to=6), node("Cast", "d", "f", to=1), node("Relu", "f")]
        assert census(optimized(build(rounding, MAP, ["y"]))) == {"Cast": 2, "Relu": 1}

    def test_casts_through_half_precision_are_dropped_but_those_to_integers_stay(self) -> None:
        half = [node("Cast", "x", "h", to=10), node("Cast", "h", "f", to=1), node("Relu", "f")]
        assert census(optimize(build(half, MAP, ["y"]), "bayes-e")) == {"Relu": 1}

    def test_reshapes_merge(self) -> None:
        nodes = [
            node("Flatten", "x", "f"),
            node("Unsqueeze", "f axes", "u"),
            node("Squeeze", "u axes", "s"),
            node("Reshape", "s shape"),
        ]
        constants = {"axes": np.array([0]), "shape": np.array([2, -1])}
        after = optimized(build(nodes, MAP, ["y"], constants))
        assert census(after) == {"Reshape": 1}

    def test_transposes_merge(self) -> None:
        nodes = [
            node("Transpose", "x", "a", perm=[0, 2, 3, 1]),
            node("Transpose", "a", "b", perm=[0, 3, 1, 2]),
            node("Relu", "b"),
        ]
        assert census(optimized(build(nodes, MAP, ["y"]))) == {"Relu": 1}


@pytest.mark.parametrize(
    ("proto", "constants", "stays"),
    [
        (node("Identity", "r"), {}, False),
        (node("Cast", "r", to=1), {}, False),
        (node("Transpose", "r", perm=[0, 1, 2, 3]), {}, False),
        (node("Transpose", "r", perm=[0, 1, 3, 2]), {}, True),
        (node("Concat", "r", axis=1), {}, False),
        (node("Concat", "r r", axis=1), {}, True),
        (node("Sum", "r"), {}, False),
        (node("Pad", "r p"), {"p": np.zeros(8, np.int64)}, False),
        (node("Pad", "r p"), {"p": np.asarray([0, 0, 0, 0, 0, 0, 0, 1])}, True),
        (node("Gather", "r i", axis=1), {"i": np.asarray([0, 1, 2, -1])}, False),
        (node("Gather", "r i", axis=1), {"i": np.asarray([0, 2, 1, 3])}, True),
        (node("Slice", "r s e a t"), {"s": [0], "e": [9], "a": [2], "t": [1]}, False),
        (node("Slice", "r s e a t"), {"s": [9], "e": [-99], "a": [2], "t": [-1]}, True),
        (node("Expand", "r s"), {"s": [1]}, False),
        (node("Tile", "r s"), {"s": [1, 1, 1, 1]}, False),
        (node("Tile", "r s"), {"s": [1, 2, 1, 1]}, True),
        (node("Reshape", "r s"), {"s": [1, 4, -1, 8]}, False),
        (node("Reshape", "r s"), {"s": [1, 4, 64]}, True),
    ],
)
def test_which_operators_change_nothing(proto: onnx.NodeProto, constants: dict[str, Any], stays: bool) -> None:
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    before = build([node("Relu", "x", "r"), proto], MAP, ["y"], arrays)
    modified, after = applied(RemoveNoOps(), before)
    assert (modified, len(after.graph)) == (not stays, 1 + stays)


def test_a_dropout_whose_mask_is_read_stays() -> None:
    nodes = [node("Relu", "x", "r"), node("Dropout", "r", "d m"), node("Where", "m d x")]
    assert not applied(RemoveNoOps(), build(nodes, MAP, ["y"]))[0]


@pytest.mark.parametrize(("kinds", "drops"), [((11, 1), True), ((10, 1), True), ((7, 1), False), ((6, 1), False)])
def test_casts_that_come_back_without_loss(kinds: tuple[int, int], drops: bool) -> None:
    first, back = kinds
    before = build([node("Relu", "x", "r"), node("Cast", "r", "c", to=first), node("Cast", "c", to=back)], MAP, ["y"])
    assert applied(RemoveCastPairs(), before, exact=False)[0] == drops


@pytest.mark.parametrize(
    ("proto", "constants", "target"),
    [
        (node("Flatten", "x", name="n"), {}, [-1, 256]),
        (node("Flatten", "x", name="n", axis=2), {}, [-1, 64]),
        (node("Squeeze", "x a", name="n"), {"a": [0]}, [4, 8, 8]),
        (node("Unsqueeze", "x a", name="n"), {"a": [0, 5]}, [1, 1, 4, 8, 8, 1]),
    ],
)
def test_target_shapes(proto: onnx.NodeProto, constants: dict[str, list[int]], target: list[int]) -> None:
    before = build([proto], MAP, ["y"], {name: np.asarray(value) for name, value in constants.items()})
    _, after = applied(ReshapingToReshape(), before)
    (made,) = after.graph
    assert (made.op_type, made.name, made.inputs[1].const_value.numpy().tolist()) == ("Reshape", "n", target)


@pytest.mark.parametrize(
    ("target", "outputs", "expected"),
    [([4, 64], ["y"], ["first"]), ([4, 64], ["y", "a"], None), ([0, -1], ["y"], None)],
)
def test_of_two_reshapes_the_first_stays(target: list[int], outputs: list[str], expected: list[str] | None) -> None:
    nodes = [node("Reshape", "x s", "a", name="first"), node("Reshape", "a t", name="second")]
    before = build(nodes, MAP, outputs, {"s": np.asarray([2, 128]), "t": np.asarray(target)})
    modified, after = applied(MergeReshapes(), before)
    assert (modified, [item.name for item in after.graph]) == (expected is not None, expected or ["first", "second"])


def test_permutations_are_composed() -> None:
    nodes = [node("Transpose", "x", "a", perm=[1, 2, 3, 0]), node("Transpose", "a", perm=[0, 2, 1, 3])]
    _, after = applied(MergeTransposes(), build(nodes, MAP, ["y", "a"]))
    assert tuple(after.graph[1].attributes["perm"].value) == (1, 3, 2, 0)
    assert after.graph[1].inputs[0].name == "x"
    reversing = build([node("Transpose", "x", "a"), node("Transpose", "a", perm=[1, 0, 2, 3])], MAP, ["y"])
    assert tuple(list(applied(MergeTransposes(), reversing)[1].graph)[-1].attributes["perm"].value) == (2, 3, 1, 0)


def test_casts_to_another_type_stay() -> None:
    half = [node("Cast", "x", "h", to=10), node("Relu", "h", "r"), node("Cast", "r", to=1)]
    assert not applied(RemoveNoOps(), build(half, MAP, ["y"]))[0]
    narrower = [node("Cast", "x", "d", to=11), node("Cast", "d", "h", to=10), node("Cast", "h", to=1)]
    assert not applied(RemoveCastPairs(), build(narrower, MAP, ["y"]))[0], "back to another type than it came from"


@pytest.mark.parametrize("reader", [node("Identity", "r", "y"), node("Transpose", "r", "y", perm=[0, 1, 2, 3])])
def test_what_changes_nothing_between_two_outputs_is_refused(reader: onnx.NodeProto) -> None:
    nodes = [node("Relu", "x", "r"), reader]
    with pytest.raises(UnsupportedError, match="outputs r and y"):
        optimize(build(nodes, MAP, ["r", "y"]), "bayes-e")
    clean = optimize(build(nodes, MAP, ["r", "y"]), "bayes-e", Compatibility.CLEAN)
    assert [value.name for value in clean.graph.outputs] == ["r", "y"]
