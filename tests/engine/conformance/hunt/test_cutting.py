"""Parts of a network: what enters and leaves them, and the values that enter."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from engine.chips import March
from engine.conformance.hunt.cutting import cut_out, tensors, with_model
from engine.conformance.hunt.draws import Draw
from engine.conformance.questions.network import SmallNetwork


def item(net: SmallNetwork, **calibration: object) -> Draw:
    """``net`` as a draw."""
    inputs: dict[str, object] = {
        "input_name": "x",
        "input_type_train": "featuremap",
        "input_type_rt": "featuremap",
        "input_layout_train": "NCHW",
        "input_layout_rt": "NCHW",
        "norm_type": "no_preprocess",
    }
    groups: dict[str, dict[str, object]] = {
        "model_parameters": {},
        "input_parameters": inputs,
        "calibration_parameters": {"calibration_type": "max", **calibration},
        "compiler_parameters": {},
    }
    return Draw("n", net.model(), {"x": net.samples()}, March("bayes"), ("max",), (), groups)


def chain() -> SmallNetwork:
    """Conv_0, Relu_1, Conv_2, Sigmoid_3, Mul_4."""
    net = SmallNetwork("n", (1, 4, 8, 8), 1)
    y = net.conv(net.op("Relu", net.conv("x", 4, 6)), 6, 8)
    net.output(net.op("Mul", y, net.op("Sigmoid", y)))
    return net


def test_a_part_reads_what_the_whole_has_there() -> None:
    whole = item(chain())
    part = cut_out(whole, {"Relu_1", "Conv_2"})
    assert part is not None
    assert [node.name for node in part.model.graph.node] == ["Relu_1", "Conv_2"]
    assert [value.name for value in part.model.graph.input] == list(part.data) == ["conv_0"]
    assert [value.name for value in part.model.graph.output] == ["conv_2"]
    assert part.parameters["input_parameters"]["input_name"] == "conv_0"
    onnx.checker.check_model(part.model, full_check=True)
    session = ort.InferenceSession(part.model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"conv_0": part.data["conv_0"][0]})
    assert np.allclose(found, tensors(whole, ["conv_2"])["conv_2"][0], atol=1e-5)


def test_what_others_read_becomes_an_output() -> None:
    part = cut_out(item(chain()), {"Conv_2", "Mul_4"})
    assert part is not None
    assert list(part.data) == ["relu_1", "sigmoid_3"]
    assert [value.name for value in part.model.graph.output] == ["conv_2", "mul_4"]


def test_nothing_is_no_network() -> None:
    assert cut_out(item(chain()), set()) is None


def test_an_index_may_not_enter() -> None:
    net = SmallNetwork("n", (1, 4, 8), 1)
    net.output(net.op("Cast", net.op("ArgMax", "x", axis=1), to=1))
    assert cut_out(item(net), {"Cast_1"}) is None
    assert cut_out(item(net), {"ArgMax_0", "Cast_1"}) is not None


@pytest.mark.parametrize(("asked", "left"), [("Conv_0", None), ("Conv_2", "Conv_2"), ("Conv_0;Conv_2", "Conv_2")])
def test_nodes_that_are_gone_are_no_longer_named(asked: str, left: str | None) -> None:
    part = cut_out(item(chain(), run_on_cpu=asked), {"Conv_2", "Sigmoid_3", "Mul_4"})
    assert part is not None
    assert part.parameters["calibration_parameters"].get("run_on_cpu") == left


def test_inputs_that_stay_keep_their_type() -> None:
    whole = item(chain())
    groups = {**whole.parameters, "input_parameters": {**whole.parameters["input_parameters"], "input_type_rt": "rgb"}}
    kept = with_model(Draw("n", whole.model, whole.data, whole.march, (), (), groups), whole.model, whole.data)
    assert kept.parameters["input_parameters"]["input_type_rt"] == "rgb"
