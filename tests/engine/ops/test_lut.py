"""Tables of int8 functions: the original's roundings and its HardSigmoid."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.ops.lut import lookup_table


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
