"""Standard nodes by themselves: in ONNX Runtime where it has a kernel, else by ONNX's own definition."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import ModelError
from engine.floats.standard import StandardNode


def node(op_type: str, *inputs: ir.Value | None, outputs: int = 1, **attributes: Any) -> ir.Node:
    return ir.node(op_type, inputs, attributes, outputs=[value(f"y{index}") for index in range(outputs)], name="n")


def value(name: str, constant: np.ndarray | None = None) -> ir.Value:
    return ir.Value(name=name, const_value=None if constant is None else ir.tensor(constant, name=name))


def test_constants_and_omitted_inputs_keep_their_places() -> None:
    clip = StandardNode(node("Clip", value("x"), None, value("high", np.float32(2))), {"": 13})
    (found,) = clip([np.array([-5, 5], np.float32), None, np.float32(99)])
    assert found.tolist() == [-5, 2], "the constant is the node's own"


CELLS = [("LSTM", 4, 3), ("GRU", 3, 2), ("RNN", 1, 2)]


@pytest.mark.parametrize(("op_type", "gates", "count"), CELLS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [False, True])
def test_outputs_that_are_left_out_keep_their_places(
    op_type: str, gates: int, count: int, direction: str, lengths: bool
) -> None:
    """Y, Y_h and Y_c of a cell with initial states: whichever are read, each is what it is among all."""
    rng = np.random.default_rng(0)
    ways = 2 if direction == "bidirectional" else 1
    shapes = {"x": (3, 1, 4), "w": (ways, gates * 5, 4), "r": (ways, gates * 5, 5), "b": (ways, 2 * gates * 5)}
    arrays: list[np.ndarray | None] = [rng.normal(size=shape).astype(np.float32) for shape in shapes.values()]
    arrays.append(np.array([2], np.int32) if lengths else None)
    arrays += [rng.normal(size=(ways, 1, 5)).astype(np.float32) for _ in range(count - 1)]
    names = [None if array is None else value(f"i{index}") for index, array in enumerate(arrays)]

    def run(wanted: tuple[bool, ...]) -> tuple[np.ndarray, ...]:
        outputs = [ir.Value(name=f"y{index}" if is_read else "") for index, is_read in enumerate(wanted)]
        cell = ir.node(op_type, names, {"direction": direction, "hidden_size": 5}, outputs=outputs, name="n")
        return StandardNode(cell, {"": 11})(arrays)

    every = run((True,) * count)
    for wanted in itertools.product((False, True), repeat=count):
        if not any(wanted):
            continue
        last = max(index for index, is_read in enumerate(wanted) if is_read)
        found = run(wanted[: last + 1])
        assert len(found) == last + 1
        for index in range(last + 1):
            if wanted[index]:
                np.testing.assert_array_equal(found[index], every[index])


def test_what_the_runtime_has_no_kernel_for_is_evaluated() -> None:
    largest = StandardNode(node("Max", value("a"), value("b")), {"": 11})
    found = [largest([np.array([1, 7], kind), np.array([5, 2], kind)])[0] for kind in (np.int8, np.float32, np.int8)]
    assert [array.dtype for array in found] == [np.int8, np.float32, np.int8]
    assert all(array.tolist() == [5, 7] for array in found)
    assert len(largest._runners) == 2, "one per combination of types"


def test_operators_mean_what_they_meant_in_their_operator_set() -> None:
    x = np.zeros((1, 2, 2), np.float32)
    shares = [StandardNode(node("Softmax", value("x"), axis=1), {"": opset})([x])[0].ravel()[0] for opset in (11, 13)]
    assert shares == [0.25, 0.5]


def test_nodes_that_cannot_be_computed_are_named() -> None:
    with pytest.raises(ModelError, match=r"node n \(NoSuchOperator\) cannot be simulated"):
        StandardNode(node("NoSuchOperator", value("x")), {"": 13})([np.zeros(2, np.float32)])
    gather = StandardNode(node("Gather", value("x"), value("i")), {"": 13})
    with pytest.raises(ModelError, match=r"node n \(Gather\) cannot be computed"):
        gather([np.zeros(2, np.float32), np.array([5])])


def test_the_definitions_are_not_loaded_for_what_the_runtime_computes() -> None:
    code = (
        "import sys, numpy as np, onnx_ir as ir\n"
        "from engine.floats.standard import StandardNode\n"
        "node = ir.node('Relu', [ir.Value(name='x')], outputs=[ir.Value(name='y')])\n"
        "StandardNode(node, {'': 13})([np.zeros(2, np.float32)])\n"
        "print('onnx.reference' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
