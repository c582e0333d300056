"""Every form of an ``LSTM`` is unrolled exactly, or stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper

from engine.optimize.recurrent import GATES, MAX_STEPS, UnrollLstm
from tests.engine.optimize.equivalence import applied, build, census, optimized

USUAL = ["Sigmoid", "Tanh", "Tanh"]
OPERANDS = ("w", "r", "b", "lengths", "h", "c", "p")
OUTPUTS = ("y", "last", "state")

ATTRIBUTES = st.fixed_dictionaries(
    {
        "direction": st.sampled_from(["forward", "reverse", "bidirectional"]),
        "activations": st.sampled_from([USUAL, ["Tanh", "Relu", "Sigmoid"]]),
    },
    optional={"clip": st.sampled_from([0.2, 5.0]), "input_forget": st.sampled_from([0, 1])},
)


@dataclass(frozen=True)
class Case:
    """An ``LSTM`` and what of it the pass reads."""

    model: ir.Model
    attributes: dict[str, Any]
    constants: dict[str, NDArray[Any]]

    @property
    def is_plain(self) -> bool:
        """Whether it is a cell that starts from zero or from both states, without lengths, peepholes and options."""
        options = {"activations": USUAL, "clip": 0.0, "input_forget": 0}
        usual = all(self.attributes.get(name, value) == value for name, value in options.items())
        from_zero = not any(np.any(self.constants.get(name, 0)) for name in ("h", "c"))
        begins = from_zero or self.constants.keys() >= {"h", "c"}
        return usual and begins and not self.constants.keys() & {"lengths", "p"}


@st.composite
def cases(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Case:
    """Sizes, attributes, operands and outputs, each given or not; states and peepholes may be zero."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    steps, batch, features, hidden = (draw(st.integers(1, high)) for high in (4, 3, 3, 3))
    attributes = draw(ATTRIBUTES) if draw(st.booleans()) else {}
    count = 2 if attributes.get("direction") == "bidirectional" else 1
    states = (count, batch, hidden)
    sizes = [(count, 4 * hidden, features), (count, 4 * hidden, hidden), (count, 8 * hidden), (batch,), states, states]
    shapes = dict(zip(OPERANDS, [*sizes, (count, 3 * hidden)], strict=True))
    optional = draw(st.sets(st.sampled_from(OPERANDS[2:])))
    constants = {name: rng.normal(size=shapes[name]).astype(np.float32) for name in ("w", "r", *optional)}
    for name in constants.keys() & {"h", "c", "p"}:
        constants[name] *= draw(st.integers(0, 1))
    if "lengths" in constants:
        constants["lengths"] = rng.integers(1, steps + 1, batch).astype(np.int32)
    outputs = draw(st.sets(st.sampled_from(OUTPUTS), min_size=1))
    written = {**attributes, "activations": attributes["activations"] * count} if attributes else {}
    cell = helper.make_node(
        "LSTM",
        ["x", *(name if name in constants else "" for name in OPERANDS)],
        [name if name in outputs else "" for name in OUTPUTS],
        hidden_size=hidden,
        **written,
    )
    return Case(build([cell], {"x": (steps, batch, features)}, sorted(outputs), constants), attributes, constants)


@given(case=cases())
def test_any_lstm_is_exact_or_stays(case: Case) -> None:
    after = optimized(case.model)
    assert ("LSTM" not in census(after)) is case.is_plain


def lstm(steps: int, inputs: str = "x w r b", **attributes: Any) -> ir.Model:
    """Two features, three hidden values, one sample."""
    rng = np.random.default_rng(0)
    shapes = {"w": (1, 12, 2), "r": (1, 12, 3), "b": (1, 24), "h": (1, 1, 3), "p": (1, 9)}
    constants = {
        name: (np.zeros if name == "h" else rng.normal)(size=shape).astype(np.float32)
        if name != "h"
        else np.zeros(shape, np.float32)
        for name, shape in shapes.items()
        if name in inputs.split()
    }
    made = helper.make_node(
        "LSTM", ["" if name == "_" else name for name in inputs.split()], ["y"], "n", hidden_size=3, **attributes
    )
    return build([made], {"x": (steps, 1, 2)}, ["y"], constants)


@pytest.mark.parametrize(
    ("model", "unrolled"),
    [
        (lstm(1), True),
        (lstm(2, "x w r"), True),
        (lstm(2, "x w r b _ h h"), True),
        (lstm(2, "x w r b _ _ _ p"), False),
        (lstm(2, clip=1.0), False),
        (lstm(2, input_forget=1), False),
        (lstm(2, direction="reverse"), True),
        (lstm(2, activations=["Sigmoid", "Tanh", "Relu"]), False),
        (lstm(2, activations=["Sigmoid", "Tanh", "Tanh"]), True),
    ],
)
def test_which_forms_are_unrolled(model: ir.Model, unrolled: bool) -> None:
    modified, after = applied(UnrollLstm(), model)
    assert modified == unrolled
    assert ("LSTM" in census(after)) != unrolled


def test_the_longest_sequence_that_is_unrolled() -> None:
    assert MAX_STEPS == 64
    assert applied(UnrollLstm(), lstm(64))[0]
    assert not applied(UnrollLstm(), lstm(65))[0]


def test_gates_stand_in_onnxs_order() -> None:
    assert GATES == ("input", "output", "forget", "cell")


def test_the_first_step_has_no_forget_gate() -> None:
    one, two = (census(applied(UnrollLstm(), lstm(steps))[1]) for steps in (1, 2))
    assert two["Sigmoid"] - one["Sigmoid"] == 3
    assert one["Sigmoid"] == 2


def test_results_have_the_names_that_the_nodes_give() -> None:
    cell = helper.make_node("LSTM", ["x", "w", "r"], ["states"], "n", hidden_size=3)
    constants = {"w": np.zeros((1, 12, 2), np.float32), "r": np.zeros((1, 12, 3), np.float32)}
    model = build([cell, helper.make_node("Relu", ["states"], ["y"])], {"x": (2, 1, 2)}, ["y"], constants)
    *_, turned, relu = applied(UnrollLstm(), model)[1].graph
    assert turned.op_type == "Transpose"
    assert relu.inputs[0] is turned.outputs[0]
    assert turned.outputs[0].name == f"{turned.name}_out"


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_given_states_are_moved_to_pixels_in_front_of_each_direction(direction: str) -> None:
    """An input of the network is a state that the network does not know: streams hand it on (asked of the original)."""
    count = 1 + (direction == "bidirectional")
    rng = np.random.default_rng(1)
    shapes = {"w": (count, 12, 2), "r": (count, 12, 3), "b": (count, 24)}
    constants = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    names, ends = ["x", "w", "r", "b", "", "h", "c"], ["y", "last", "state"]
    cell = helper.make_node("LSTM", names, ends, "n", hidden_size=3, direction=direction)
    inputs = {"x": (2, 1, 2), "h": (count, 1, 3), "c": (count, 1, 3)}
    _, after = applied(UnrollLstm(), build([cell], inputs, ends, constants))
    first = {"split_n_2", "reshape_n_3", "transpose_n_4"} if count > 1 else {"reshape_n_2", "transpose_n_3"}
    assert first <= {str(item.name) for item in after.graph}
    assert "LSTM" not in census(optimized(build([cell], inputs, ends, constants)))
