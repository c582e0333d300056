"""Tables of int8 functions: the original's roundings and its HardSigmoid."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.ops.core.base import Tie
from engine.ops.core.reasons import Code
from engine.ops.lut import LutRule, leaky_attributes, lookup_table
from tests.engine.ops.operators import Recorder, constant, evaluate, float_node, int8, lowered, refused, scaled, tensor

MAP = (1, 4, 8, 8)


def function(op_type: str, *constants: ir.Value, **attributes: float) -> ir.Node:
    return float_node(op_type, [tensor("x", *MAP), *constants], MAP, **attributes)


def table(op_type: str, input_threshold: float, output_threshold: float, **attributes: float) -> list[int]:
    node = ir.node(op_type, [ir.Value(name="x")], attributes)
    scales = [
        np.asarray([threshold], np.float32) / np.float32(127) for threshold in (input_threshold, output_threshold)
    ]
    return [int(entry) for entry in lookup_table(node, *scales)]


@pytest.mark.parametrize("alpha", [1 / 6, 0.2])
def test_hard_sigmoid_has_the_slope_of_the_original(alpha: float) -> None:
    found = table("HardSigmoid", 6.867239475250244, 1.0, alpha=alpha, beta=0.5)
    assert found[68:84] == [0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]
    assert found[128] == 64


def test_ties_of_leaky_relu_are_those_of_float32() -> None:
    """Measured: with threshold 3.7183688, -5 becomes 0 and -35 becomes -3; with 4.0748382, -5 becomes -1."""
    found = [
        table("LeakyRelu", threshold, threshold, alpha=0.1) for threshold in (3.7183687686920166, 4.074838161468506)
    ]
    assert [[entries[128 + x] for x in (-75, -35, -5)] for entries in found] == [[-8, -3, 0], [-7, -4, -1]]


def test_the_table_begins_at_the_least_integer() -> None:
    found = evaluate("HzLut", [int8(-128, -1, 0, 127), np.arange(256).astype(np.int8)])
    assert found.ravel().tolist() == [0, 127, -128, -1]


def test_entries_are_rounded_away_from_zero_and_saturated() -> None:
    found = table("Relu", 127.0, 254.0)
    assert found[:131] == [0] * 129 + [1, 1]
    assert table("Exp", 127.0, 127.0)[-1] == 127
    assert table("Log", 127.0, 127.0)[:129] == [-128] * 129, "undefined, or minus infinity"


@pytest.mark.parametrize(
    ("op_type", "qtype", "expected"),
    [
        ("Sigmoid", "int8", (5.49897, None)),
        ("Sigmoid", "int16", (11.09031, None)),
        ("HardSigmoid", "int8", (3.0, None)),
        ("Tanh", "int8", (None, None)),
    ],
)
def test_gates_have_ranges_of_their_own(op_type: str, qtype: str, expected: tuple[float | None, float | None]) -> None:
    assert LutRule().fixed_thresholds(function(op_type), qtype) == expected


def test_powers_are_constant_numbers() -> None:
    nodes = [
        function("Pow", constant("e", np.float32(2))),
        function("Pow", constant("e", [2.0, 3.0])),
        function("Pow", tensor("e", 1)),
        function("Tanh"),
    ]
    wrong = Code.EXPONENT_NOT_SCALAR
    assert [refused(LutRule(), node) for node in nodes] == [None, wrong, wrong, None]


def test_what_saturates_or_leaks_gives_its_input_the_threshold() -> None:
    nodes = [
        function("LeakyRelu"),
        function("Clip", min=-2.0, max=2.0),
        function("Clip", min=0.5, max=2.0),
        function("Tanh"),
    ]
    ties = [Tie.INPUT_TAKES_OUTPUT, Tie.INPUT_TAKES_OUTPUT, Tie.NONE, Tie.NONE]
    assert [LutRule().tie(node) for node in nodes] == ties
    recorder = Recorder(x=scaled(0.5), y=scaled(0.25))
    LutRule().lower([nodes[1]], recorder)
    assert (recorder.nodes, recorder.forms["y"].scale.tolist()) == ([], [0.25])


def test_a_table_per_node_or_an_operator_of_its_own() -> None:
    recorder = Recorder(x=scaled(1), y=scaled(2))
    LutRule().lower([function("HzSwish")], recorder)
    (made,) = recorder.nodes
    assert (made.op_type, made.inputs, made.bits) == ("HzLut", ["x NHWC", "n_table_params"], 8)
    assert made.attributes == {"lut_type": "swish", "data_format": "NHWC"}
    assert recorder.constants["n_table_params"][128 + 10] == 5
    leaky = function("LeakyRelu", alpha=0.25)
    scales = {"x": scaled(1), "y": scaled(1)}
    assert lowered(LutRule(), leaky, march="bayes", **scales).op_type == "HzLut"
    own = lowered(LutRule(), leaky, march="bernoulli2", **scales)
    assert own.op_type == "HzLeakyRelu"
    assert own.attributes == {"alpha_scale": 32, "alpha_shift": 7, "data_format": "NHWC"}
    assert leaky_attributes(0.1) == {"alpha_scale": 13, "alpha_shift": 7}


def test_int16_of_two_lines_is_their_slopes() -> None:
    """Scale 0.5 to 0.25 is a factor of 2, below zero 0.25 of that."""
    made = lowered(
        LutRule(), function("LeakyRelu", alpha=0.25), x=scaled(0.5, qtype="int16"), y=scaled(0.25, qtype="int16")
    )
    assert (made.op_type, made.bits, made.attributes["output_bit"]) == ("HzLut2Layer", 16, 16)
    slopes = [made.attributes["scale"][side] * 2.0 ** -made.attributes["right_shift"][side] for side in (0, 7)]
    assert slopes == [0.5, 2.0]
    assert made.attributes["table_param"] == [0] * 384
