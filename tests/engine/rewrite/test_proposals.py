"""Which rewrites are offered, what they win, and what is applied."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from engine.config import NodeInfo
from engine.convert import Draft, check
from engine.errors import ConfigError, UnsupportedError
from engine.frontend.prepared import MARK_GIVEN
from engine.ir import save_model
from engine.rewrite import proposals
from engine.rewrite.base import Chain
from engine.rewrite.proof import ExactOutputs
from engine.rewrite.proposals import Rewriting, rewrite_names, rewritings_of
from engine.rewrite.softmax import SoftmaxOverLastAxis
from tests.engine.rewrite.networks import HEAD, TAIL, source

SOFTMAX = f"{HEAD}y = Softmax(c, axis=1){TAIL}"
DECODED = f"{HEAD}b = Conv(c, W(16, 8, 1, 1)); t = CumSum(b, 1); y = Mul(t, W(16, 8, 8))"


def names(found: Rewriting) -> list[str]:
    return [proposal.name for proposal in found.proposals]


def test_a_softmax_is_offered_with_what_it_wins() -> None:
    found = rewritings_of(source(SOFTMAX, 11), "bayes-e")
    model13 = rewritings_of(source(SOFTMAX), "bayes-e", [{"x": np.ones((1, 4, 8, 8), np.float32)}])
    assert names(model13) == ["softmax", "versions"]
    softmax, versions = model13.proposals
    assert softmax.places == ("Softmax_2",)
    assert softmax.before is not None
    assert softmax.after is not None
    assert (softmax.before.on_cpu, softmax.after.on_cpu) == (("Softmax_2",), ())
    assert softmax.before.subgraphs > softmax.after.subgraphs
    assert (softmax.wins_us or 0) > 100
    assert softmax.comparison.given == 1
    assert softmax.requests == ("Softmax_2_softmax",)
    assert versions.places == ("opset 13, ir_version 8 to opset 11, ir_version 6",)
    assert model13.end.requests == ("Softmax_2_softmax",)
    assert names(found) == ["softmax"]
    assert "before opset 13 it normalises over all axes" in found.remarks[0]


def test_figures_are_those_of_a_conversion_of_the_file(tmp_path: Path) -> None:
    found = rewritings_of(source(SOFTMAX), "bayes-e", wanted=("softmax",))
    path = save_model(found.end.model, tmp_path / "net.onnx")
    info = {name: NodeInfo.model_validate({"ON": "BPU"}) for name in found.end.requests}
    result = check(path, Draft("bayes-e", node_info=info))
    assert found.end.figures is not None
    assert found.end.figures.bpu_us == result.performance.latency_us
    assert not result.performance.cpu_nodes


def test_what_the_engine_handles_is_not_offered() -> None:
    for text in (
        "y = Softmax(c, axis=3)",
        "y = Sub(c, Conv(x, W(8, 4, 1, 1)))",
        "y = InstanceNormalization(c, W(8), W(8))",
    ):
        assert names(rewritings_of(source(HEAD + text + TAIL, 11), "bayes-e")) == []


def test_what_wins_nothing_is_declined_and_says_so() -> None:
    found = rewritings_of(source(SOFTMAX, 11), "bernoulli2")
    assert names(found) == []
    assert [each.name for each in found.declined] == ["softmax"]
    assert found.declined[0].why.startswith("no gain")


def test_a_rewrite_that_is_not_equal_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(SoftmaxOverLastAxis):
        def replaced(self, node: ir.Node, chain: Chain) -> bool:
            chain.add("Sigmoid", [node.inputs[0]])
            return True

    monkeypatch.setattr(proposals, "REWRITES", (Wrong,))
    found = rewritings_of(source(SOFTMAX, 11), "bayes-e")
    assert names(found) == []
    assert found.declined[0].why.startswith("not equal to the network: largest difference")


def test_a_network_that_could_not_be_converted_can_be_then() -> None:
    found = rewritings_of(source("y = Relu(Conv(x, W(8, 4, 3)))", 11, (1, 4, 64)), "bayes-e")
    assert found.start.figures is None
    assert "no node can execute on BPU" in found.refusal
    assert names(found)[0] == "conv_1d"
    assert found.end.figures is not None


def test_a_rewrite_that_wins_only_after_another_is_tried_again() -> None:
    text = "p = MaxPool(x, kernel_shape=[2, 2, 2]); y = Conv(p, W(4, 4, 1, 1, 1)); z = Reshape(y, [1, 28, 7, 7])"
    found = rewritings_of(source(text, 11, (1, 4, 8, 8, 8)), "bayes-e")
    assert set(names(found)) >= {"conv_3d", "pooling"}


def test_the_tail_changes_the_outputs_and_is_cut_only_where_it_is_named() -> None:
    model = source(DECODED, 11)
    found = rewritings_of(model, "bayes-e")
    tail = found.proposals[-1]
    assert (tail.name, tail.keeps_outputs, tail.comparison.equal) == ("tail", False, True)
    assert found.end.cut is None
    cut = rewritings_of(model, "bayes-e", wanted=("all", "tail")).end.cut
    assert cut is not None
    assert [value.name for value in cut.head.graph.outputs] == ["b"]


def test_a_tail_that_a_rewrite_brought_to_the_bpu_can_still_be_cut() -> None:
    boxes = "t = Transpose(Reshape(Conv(c, W(64, 8, 1, 1)), [1, 4, 16, 64]), perm=[0, 2, 1, 3]); "
    text = f"{HEAD}{boxes}d = Conv(Softmax(t, axis=1), {[[[[float(index)]] for index in range(16)]]}); y = Mul(d, 8.0)"
    found = rewritings_of(source(text), "bayes-e", wanted=("all", "tail"))
    assert names(found) == ["dfl", "versions", "tail"]
    assert found.end.requests == ()
    assert found.end.cut is not None
    assert [len(node.inputs) for node in found.end.cut.head.graph if node.op_type == "Conv"] == [3, 2]


def test_only_what_is_named_is_tried() -> None:
    assert names(rewritings_of(source(SOFTMAX), "bayes-e", wanted=("versions",))) == ["versions"]


def test_wrong_names_have_near_ones_and_absent_forms_a_reason() -> None:
    with pytest.raises(ConfigError, match=r"--apply 'sofmax': .*did you mean 'softmax'"):
        rewritings_of(source(SOFTMAX), "bayes-e", wanted=("sofmax",))
    with pytest.raises(ConfigError, match="--apply einsum: not offered for this network: nothing in the network"):
        rewritings_of(source(SOFTMAX), "bayes-e", wanted=("einsum",))
    with pytest.raises(ConfigError, match="--apply softmax: not offered for this network: no gain"):
        rewritings_of(source(SOFTMAX, 11), "bernoulli2", wanted=("softmax",))
    assert {"softmax", "dfl", "attention", "versions", "tail"} <= set(rewrite_names())


def test_networks_that_bring_thresholds_are_refused() -> None:
    model = source(SOFTMAX)
    model.metadata_props[MARK_GIVEN] = '{"c": [1.0]}'
    with pytest.raises(UnsupportedError, match="rewrite the float network that it was made from"):
        rewritings_of(model, "bayes-e")


def test_the_network_that_is_given_stays() -> None:
    model = source(SOFTMAX)
    before = ExactOutputs.of(model)
    nodes = [node.name for node in model.graph]
    rewritings_of(model, "bayes-e")
    assert [node.name for node in model.graph] == nodes
    assert before.compare(model).largest == 0
