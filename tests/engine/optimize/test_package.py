"""The optimiser as a whole: the order of passes, and what is left on the result."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import pytest

from engine import optimize as package
from engine.chips import load_chip
from engine.errors import ConfigError, OptimizeError
from engine.ir import load_model, save_model, to_bytes
from engine.optimize import Pipeline, optimize, pipeline
from tests.engine.optimize.equivalence import assert_equivalent, build, census, optimized
from tests.engine.optimize.networks import MAP, conv_then, node, normal


def test_unknown_march() -> None:
    with pytest.raises(ConfigError, match="User input march invalid: 'nash-x'"):
        optimize(build([node("Relu", "x")], MAP, ["y"]), "nash-x")


def test_result_survives_a_file(tmp_path: Any) -> None:
    after = optimized(conv_then(node("Sigmoid", "c", "s"), node("Mul", "c s")))
    again = load_model(save_model(after, tmp_path / "m.onnx"))
    assert to_bytes(again) == to_bytes(after)
    assert again.metadata_props["hz.march"] == "bayes-e"
    assert_equivalent(after, again)
    assert b"onnxscript" not in to_bytes(after)


def names(passes: tuple[ir.passes.PassBase, ...]) -> list[str]:
    return [type(each).__name__ for each in passes]


def test_passes_in_their_order() -> None:
    found = pipeline(load_chip("bayes-e"))
    assert names(found.opening) == ["ConvertOldOpsets", "LiftConstants", "FoldNormThroughConcat"]
    assert names(found.settled) == [
        "CoverByKernel",
        "GemmToConv",
        "FoldAffineIntoNext",
        "AffineToDepthwise",
        "FactorBetweenReshapes",
    ]
    assert names(found.closing) == ["SplitWideConv", "OwnWeights", "ConstantOutputs", "RemoveUnusedNodes"]
    order = names(found.round)
    assert order[:3] == ["LiftConstants", "FoldConstants", "RemoveUnusedNodes"]
    assert order[-1] == "RemoveUnusedNodes"
    for first, second in (
        ("CollapseActivations", "DivToReciprocal"),
        ("DivToReciprocal", "CollapseRsqrt"),
        ("DecomposeNormalization", "ReduceMeanToGlobalPool"),
        ("GemmOfMapToConv", "SinkReshape"),
        ("MatMulToConv", "FoldAffineIntoProduct"),
    ):
        assert order.index(first) < order.index(second)
    assert names(tuple(found)) == [*names(found.opening), *order, *names(found.settled), *names(found.closing)]


class Flip(ir.passes.InPlacePass):
    """Turns Relu to Abs and back: never settled."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        for item in model.graph:
            item.op_type = {"Relu": "Abs", "Abs": "Relu"}[item.op_type]
        return ir.passes.PassResult(model, modified=True)


def test_what_takes_turns_with_the_rounds_for_ever_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "pipeline", lambda march, compatibility: Pipeline((), (), (Flip(),), ()))
    with pytest.raises(OptimizeError, match="Flip"):
        optimize(build([node("Relu", "x")], MAP, ["y"]), "bayes-e")


def test_dense_layers_that_a_later_round_could_not_take_are_taken_last() -> None:
    nodes = [node("Gemm", "x w", "g", transB=1), node("Relu", "g")]
    assert census(optimize(build(nodes, {"x": (4, 6)}, ["y"], {"w": normal(3, 6)}), "bernoulli2"))["Conv"] == 1


def test_the_given_model_stays() -> None:
    given = conv_then(node("Sigmoid", "c"))
    before = to_bytes(given)
    assert optimize(given, "bayes").metadata_props["hz.march"] == "bayes"
    assert to_bytes(given) == before
