"""Assembling: what has instructions, what is called from Python and says so, and whose exceptions are defects."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from engine.errors import ModelError
from engine.ops.core.instructions import Instructions
from engine.ops.registry import OPERATORS, STANDARD_OPERATORS
from engine.simulate.assemble import Interpreted, assemble
from engine.simulate.fast import FastSimulator
from engine.simulate.lowering import LOWERINGS, STANDARD_LOWERINGS, Call, NotLowered
from engine.simulate.lowering.tables import look_up, lower_table_of_ramp
from engine.simulate.program import Assembler, PythonStep, Tensor
from engine.simulate.reference import ReferenceSimulator
from tests.engine.simulate.models import node_model

X = np.arange(-60, 60, dtype=np.int8).reshape(1, 5, 6, 4)
TABLE = np.arange(-128, 128)[::-1].astype(np.int8)
MODEL = node_model("HzLut", [X], {}, {1: TABLE})


def test_every_entry_has_instructions_of_one_kind() -> None:
    assert LOWERINGS.keys().isdisjoint(STANDARD_LOWERINGS)
    assert {*LOWERINGS, *STANDARD_LOWERINGS, Instructions.NONE} == set(Instructions)


def test_operators_name_instructions_of_their_kind() -> None:
    """An operator of domain horizon cannot be lowered like a standard one, or the other way round."""
    lacking = {name for name, entry in OPERATORS.items() if entry.instructions not in {*LOWERINGS, Instructions.NONE}}
    lacking |= {
        name
        for name, entry in STANDARD_OPERATORS.items()
        if entry.instructions not in {*STANDARD_LOWERINGS, Instructions.NONE}
    }
    assert lacking == set()


def broken(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let the lowering of tables write instructions and constants, and then raise ``error``."""

    def lower(call: Call, program: Assembler) -> Tensor:
        look_up(call.tensor(), np.zeros((1, 256), np.int8), program)
        program.constant_operand(np.zeros((1, 1), np.int8))
        raise error

    monkeypatch.setattr("engine.simulate.assemble.LOWERINGS", {**LOWERINGS, Instructions.TABLE: lower})


def test_what_a_node_has_written_before_it_is_not_lowered_is_taken_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken(monkeypatch, NotLowered("it is too strange"))
    with caplog.at_level(logging.INFO):
        graph = assemble(MODEL)
    assert [type(part) for part in graph.program.parts] == [PythonStep]
    assert (graph.program.initial, graph.program.constants) == ((), ())
    assert graph.interpreted == (Interpreted("node", "HzLut", "it is too strange"),)
    assert [record.message for record in caplog.records] == [
        "the fast simulator has no instruction for 1 nodes and computes them slowly: node (HzLut: it is too strange)"
    ]
    found = FastSimulator(MODEL, threads=1).run({"x0": X})
    np.testing.assert_array_equal(found["y"], ReferenceSimulator(MODEL).run({"x0": X})["y"])


@pytest.mark.parametrize("error", [ValueError, LookupError, TypeError, ArithmeticError, AssertionError])
def test_any_other_exception_of_a_lowering_is_a_defect(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    broken(monkeypatch, error("a mistake"))
    with pytest.raises(error, match="a mistake"):
        assemble(MODEL)


def test_a_node_that_its_definition_refuses_is_the_models_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, ValueError("does not fit"))
    with pytest.raises(ModelError, match=r"node node \(HzLut\) cannot be computed"):
        assemble(node_model("HzLut", [X], {}, {1: TABLE[:3]}))


def test_operators_without_instructions_are_listed() -> None:
    attributes = {"axis": 1, "keepdims": 1}
    graph = assemble(node_model("HzQuantizedArgMax", [X], attributes, output=(np.int8, (1, 1, 6, X.shape[3]))))
    reason = f"axis 1 of a tensor of shape {X.shape}"
    assert graph.interpreted == (Interpreted("node", "HzQuantizedArgMax", reason),)


def test_nodes_with_instructions_are_not_listed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert assemble(MODEL).interpreted == ()
    assert caplog.records == []


def test_standard_nodes_are_listed_where_the_bpu_runs_them() -> None:
    floats, positions = X.astype(np.float32), {1: np.array([2, 0])}
    assert assemble(node_model("Softmax", [floats], {}, domain="")).interpreted == ()
    chosen = {"axis": 3}
    shape = (1, 5, 6, 2)
    float_model = node_model("Gather", [floats], chosen, positions, domain="", output=(np.float32, shape))
    assert assemble(float_model).interpreted == ()
    (found,) = assemble(node_model("Gather", [X], chosen, positions, domain="", output=(np.int8, shape))).interpreted
    assert (found.op_type, found.reason) == ("Gather", "its indices do not go on evenly")


def test_a_restored_program_is_as_it_was() -> None:
    program = Assembler()
    x = program.input((1, 2, 3, 4), np.int8)
    before = program.state()
    call = Call(OPERATORS["HzLut"], {"lut_type": ""}, [x, TABLE])
    lower_table_of_ramp(call, program)
    assert program.state() != before
    assert x.buffer.last == 0
    program.restore(before)
    assert program.state() == before
    assert x.buffer.last == -1
    assert program.finish().parts == ()
