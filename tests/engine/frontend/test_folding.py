"""Computing constants: what a model holds, and a fixed amount beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper
from onnxscript.optimizer import _constant_folding

from engine.errors import UnsupportedError
from engine.frontend.folding import FOLLOWED, REPLACED, FoldingBudget, folded
from engine.frontend.onnx import load_onnx
from engine.ir import load_model
from engine.optimize import optimize
from tests.engine.frontend.networks import network, saved


def doubled(levels: int, chains: int = 1) -> onnx.ModelProto:
    """``x`` plus the sums of chains of constants, each twice as long as the one before."""
    nodes, last = [], "x"
    for chain in range(chains):
        before = "k"
        for level in range(levels):
            nodes.append(helper.make_node("Concat", [before, before], [f"c{chain}_{level}"], axis=0))
            before = f"c{chain}_{level}"
        nodes.append(helper.make_node("ReduceSum", [before], [f"s{chain}"], keepdims=1))
        nodes.append(helper.make_node("Add", [last, f"s{chain}"], [f"a{chain}"]))
        last = f"a{chain}"
    nodes.append(helper.make_node("Relu", [last], ["y"]))
    return network(nodes, {"x": (1, 1, 4, 4)}, ["y"], {"k": np.ones(4, np.float32)})


def test_what_fits_is_computed(tmp_path: Path) -> None:
    model = load_model(saved(doubled(10), tmp_path))
    assert folded(model, 1 << 20)
    assert [node.op_type for node in model.graph] == ["Add", "Relu"]
    assert not folded(model, 1 << 20)


def test_larger_constants_stay_nodes(tmp_path: Path) -> None:
    model = load_model(saved(doubled(10), tmp_path))
    folded(model, 2048)
    assert [node.op_type for node in model.graph][:2] == ["Concat", "ReduceSum"]


def test_constants_that_double_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTQLAB_MAX_FOLDED_BYTES", "100000")
    source = load_onnx(saved(doubled(12, 10), tmp_path))
    message = "node 'Concat_11': its result and other constants take more than 100000 bytes of all constants"
    with pytest.raises(UnsupportedError, match=message):
        optimize(source, "bayes-e")


def test_tensors_that_double_are_refused_as_they_are_read(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"tensor 'c0_29' of shape \(4294967296,\) has more than 2147483648 ele"):
        load_onnx(saved(doubled(60), tmp_path))


def test_a_model_s_own_weights_may_be_computed_with_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTQLAB_MAX_FOLDED_BYTES", "64")
    weight = np.ones((64, 64), np.float32)
    nodes = [helper.make_node("Transpose", ["w"], ["t"]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    model = load_onnx(saved(network(nodes, {"x": (1, 64)}, ["y"], {"w": weight}), tmp_path))
    budget = FoldingBudget(model, 1 << 20)
    transpose = model.graph[0]
    assert budget.affords(transpose)
    assert not budget.affords(transpose)
    assert budget.refused == "Transpose_0"


def test_values_that_say_how_large_a_result_is(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Range", ["zero", "many", "one"], ["r"]),
        helper.make_node("ReduceSum", ["r"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["f"], to=1),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "many": np.int64(1 << 29), "one": np.int64(1)}
    source = load_onnx(saved(network(nodes, {"x": (1, 1, 4, 4)}, ["y"], constants), tmp_path))
    assert "Range" in [node.op_type for node in optimize(source, "bayes-e").graph]


def test_what_the_library_cannot_fold_is_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["n"], ["parts"], to=7),
        helper.make_node("SplitToSequence", ["x", "parts"], ["s"], axis=0),
        helper.make_node("SequenceAt", ["s", "i"], ["y"]),
    ]
    model = load_model(saved(network(nodes, {"x": (2, 4), "n": ()}, ["y"], {"i": np.int64(0)}), tmp_path))
    with pytest.raises(UnsupportedError, match="the constants of the model cannot be computed"):
        folded(model, 1 << 20)


def test_all_operators_that_the_library_replaces_are_known() -> None:
    registered = {op_type for domain, op_type in _constant_folding.registry.op_evaluators if not domain}
    assert registered == REPLACED | FOLLOWED


@pytest.mark.parametrize(
    ("node", "changes"),
    [
        (helper.make_node("Relu", ["x"], ["y"]), False),
        (helper.make_node("Add", ["x", "x"], ["y"]), False),
        (helper.make_node("Concat", ["x", "x"], ["y"], axis=1), False),
        (helper.make_node("Concat", ["x"], ["y"], axis=1), True),
        (helper.make_node("Reshape", ["x", "k"], ["y"]), False),
        (helper.make_node("Reshape", ["x", "same"], ["y"]), True),
        (helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT), True),
        (helper.make_node("Sqrt", ["c"], ["y"]), True),
    ],
)
def test_the_library_is_asked_where_it_changes_something(
    node: onnx.NodeProto, changes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = {"k": np.array([4, 4]), "same": np.array([1, 1, 4, 4]), "c": np.ones(2, np.float32)}
    nodes = [node, helper.make_node("Neg", ["x"], ["z"])]
    source = load_onnx(saved(network(nodes, {"x": (1, 1, 4, 4)}, ["y", "z"], constants), tmp_path))
    asked: list[ir.Model] = []

    def recorded(model: ir.Model, **_: object) -> ir.passes.PassResult:
        asked.append(model)
        return ir.passes.PassResult(model, modified=False)

    before = source.clone()
    assert folded(source, 1 << 20) is changes
    monkeypatch.setattr("onnxscript.optimizer.fold_constants", recorded)
    folded(before, 1 << 20)
    assert bool(asked) is changes


@pytest.mark.parametrize(("base", "exponent"), [(24.0, -0.5), (96.0, -0.5), (3.0, -0.25), (2.0, 3.0)])
def test_powers_of_constants_are_rounded_once(tmp_path: Path, base: float, exponent: float) -> None:
    """Also where the base is known only when a shape is: the width of a head."""
    nodes = [
        helper.make_node("Identity", ["base"], ["same"]),
        helper.make_node("Pow", ["same", "exponent"], ["power"]),
        helper.make_node("Mul", ["x", "power"], ["y"]),
    ]
    constants = {"base": np.float32(base), "exponent": np.float32(exponent)}
    model = load_model(saved(network(nodes, {"x": (1, 2)}, ["y"], constants), tmp_path))
    assert folded(model, 100)
    mul = next(node for node in model.graph if node.op_type == "Mul")
    value = ir.convenience.get_const_tensor(mul.inputs[1])
    assert value is not None
    assert value.numpy() == np.float32(np.float64(base) ** exponent)


@pytest.mark.parametrize("op_type", ["Cos", "Exp", "Log", "Sin"])
def test_functions_of_constants_are_rounded_once(tmp_path: Path, op_type: str) -> None:
    nodes = [helper.make_node(op_type, ["number"], ["value"]), helper.make_node("Mul", ["x", "value"], ["y"])]
    number = np.float32(1.2)
    model = load_model(saved(network(nodes, {"x": (1, 2)}, ["y"], {"number": number}), tmp_path))
    assert folded(model, 100)
    value = ir.convenience.get_const_tensor(next(node for node in model.graph if node.op_type == "Mul").inputs[1])
    function = {"Cos": np.cos, "Exp": np.exp, "Log": np.log, "Sin": np.sin}[op_type]
    assert value is not None
    assert value.numpy() == np.float32(function(np.float64(number)))
