"""Which forms of a ``GRU`` are unrolled, and into what."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from engine.optimize import optimize
from engine.optimize.base import initializer_of
from engine.optimize.gru import UnrollGru
from engine.optimize.recurrent import MAX_STEPS
from tests.engine.optimize.equivalence import assert_equivalent, build, optimized
from tests.engine.optimize.networks import node, normal


def gru(steps: int, inputs: str = "x w r b", batch: int = 1, outputs: str = "y last", **attributes: Any) -> ir.Model:
    """A cell of 3 features and 4 hidden units."""
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    constants = {
        "w": normal(directions, 12, 3),
        "r": normal(directions, 12, 4),
        "b": normal(directions, 24),
        "h": np.zeros((1, batch, 4), np.float32),
    }
    given = {name: array for name, array in constants.items() if name in inputs.split()}
    cell = node("GRU", inputs, outputs, name="G", hidden_size=4, **{"linear_before_reset": 1, **attributes})
    return build([cell], {"x": (steps, batch, 3)}, outputs.split(), given)


@pytest.mark.parametrize(
    ("model", "unrolled"),
    [
        (gru(1), True),
        (gru(3, batch=2), True),
        (gru(3, "x w r"), True),
        (gru(3, "x w r b _ h"), True),
        (gru(2, outputs="y"), True),
        (gru(2, linear_before_reset=0), True),
        (gru(3, "x w r", batch=2, linear_before_reset=0, direction="bidirectional"), True),
        (gru(2, clip=1.0), False),
        (gru(3, direction="reverse"), True),
        (gru(3, direction="bidirectional"), True),
        (gru(2, "x w r", batch=2, direction="bidirectional"), True),
        (gru(2, outputs="y", direction="bidirectional"), True),
        (gru(2, activations=["Sigmoid", "Relu"]), False),
        (gru(2, activations=["Sigmoid", "Tanh"]), True),
        (gru(MAX_STEPS + 1), False),
    ],
)
def test_which_forms_are_unrolled(model: ir.Model, unrolled: bool) -> None:
    after = model.clone()
    assert UnrollGru()(after).modified is unrolled
    assert_equivalent(model, after)


def test_nodes_are_numbered_as_in_the_original() -> None:
    """Of ``min_gru``: 24 numbers a step, in the first without those that the zero state leaves out."""
    after = optimize(gru(2, outputs="y"), "bayes-e")
    names = [item.name for item in after.graph if item.op_type not in ("Reshape", "Concat")]
    first = ["G1_gemm", "G6", "G7_gemm", "G12", "G13_gemm", "G16", "G17", "G18", "G19", "G20", "G21", "G22", "G23"]
    second = ["G25_gemm", "G26_gemm", "G27", "G28", "G30", "G31_gemm", "G32_gemm", "G33", "G34", "G36", "G37_gemm"]
    last = ["G38_gemm", "G40", "G41", "G42", "G43", "G44", "G45", "G46", "G47"]
    assert names == ["G0", *first, *second, *last]
    results = {item.name: item.outputs[0].name for item in after.graph}
    # A bias that is folded in leaves the name of its sum to the convolution.
    assert results["G1_gemm"] == "G5_out_reshape_reshape"
    assert results["G38_gemm"] == "G39_out_reshape_reshape"
    sums = {item.name: item.inputs[1].name for item in after.graph if item.name in ("G18", "G42")}
    assert sums == {name: f"{name}_{name}_{name}b_2_expand_dims_reshape_reshape" for name in ("G18", "G42")}


def test_the_second_direction_is_numbered_behind_the_first() -> None:
    """Of four asked networks of three steps: each splits, steps and joins; then both are joined, and last states."""
    after = gru(3, direction="bidirectional")
    UnrollGru()(after)
    ends = {item.name: item.op_type for item in after.graph if item.op_type in ("Split", "Concat")}
    assert ends == {
        "G0": "Split",
        "G73": "Concat",
        "G74": "Split",
        "G147": "Concat",
        "G148": "Concat",
        "G149": "Concat",
    }
    first = next(item for item in after.graph if item.name == "G75_reshape_in")
    assert first.inputs[0].name == "G74_out2"
    (both,) = (item for item in after.graph if item.name == "G147")
    assert [value.name for value in both.inputs] == ["G146_out", "G122_out", "G98_out"]


def test_a_state_that_is_reset_has_the_same_numbers() -> None:
    """Of three asked networks: the first step multiplies zeros, which its product has as weights then."""
    after = optimize(gru(2, "x w r", linear_before_reset=0, outputs="y"), "bayes-e")
    names = [item.name for item in after.graph if item.op_type not in ("Reshape", "Concat")]
    assert names[5:10] == ["G13_gemm", "G15_gemm", "G16", "G17", "G19"]
    assert names[names.index("G37_gemm") :][:5] == ["G37_gemm", "G38", "G39_gemm", "G40", "G41"]
    weights = {item.name: initializer_of(item.inputs[1]) for item in after.graph if item.name == "G15_gemm"}
    assert weights["G15_gemm"] is not None
    assert not weights["G15_gemm"].any()
    # A bias that is not there is one of zeros.
    sums = {item.name: item.inputs[1].name for item in after.graph if item.name in ("G17", "G41")}
    assert sums == {name: f"{name}_{name}_{name}{name}G_zeros_5_new_expand_dims_reshape_reshape" for name in sums}


def test_numbers_are_counted_through_all_cells_of_a_network() -> None:
    """Of two asked networks of three and five cells."""
    weights = {"w": normal(1, 12, 4), "r": normal(1, 12, 4)}
    first, second = (
        node("GRU", f"{given} w r", f"y{index} {last}", name=f"G{index}_", hidden_size=4, linear_before_reset=1)
        for index, (given, last) in enumerate([("x", "z"), ("x", "last")])
    )
    after = build([first, second], {"x": (2, 1, 4)}, ["y0", "y1"], weights)
    UnrollGru()(after)
    ends = [item.name for item in after.graph if item.op_type in ("Split", "Concat")]
    assert ends == ["G0_0", "G0_49", "G1_50", "G1_99"]


@pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
def test_unrolled_and_optimised_it_computes_the_same(march: str) -> None:
    assert "GRU" not in {item.op_type for item in optimized(gru(3, batch=2), march).graph}


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_a_given_state_is_what_the_first_step_reads(direction: str) -> None:
    count = 1 + (direction == "bidirectional")
    constants = {"w": normal(count, 12, 3), "r": normal(count, 12, 4), "b": normal(count, 24)}
    cell = node("GRU", "x w r b _ h", "y last", name="G", hidden_size=4, linear_before_reset=1, direction=direction)
    model = build([cell], {"x": (2, 1, 3), "h": (count, 1, 4)}, ["y", "last"], constants)
    after = model.clone()
    assert UnrollGru()(after).modified
    assert_equivalent(model, after)
    readers = {use.node.name for use in after.graph.inputs[1].uses()}
    assert readers == ({"G0"} if count > 1 else {"G2_reshape_in", "G8_reshape_in", "G14_reshape_in", "G21"})
    optimized(model)


def test_a_last_state_that_nothing_reads_gives_its_name_to_the_last_sum() -> None:
    constants = {"w": normal(1, 12, 3), "r": normal(1, 12, 4)}
    cell = node("GRU", "x w r", "y last", name="G", hidden_size=4, linear_before_reset=1)
    after = optimize(build([cell], {"x": (2, 1, 3)}, ["y"], constants), "bayes-e")
    assert any(value.name == "last_reshape_reshape" for item in after.graph for value in item.outputs)
