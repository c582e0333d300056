"""The rules of devices, alone: what each looks for."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from engine.chips import load_chip
from engine.rulebook.device import OPERATORS, STEPS
from engine.rulebook.device_sites import DeviceSite, On
from tests.engine.place.networks import network, one


@pytest.mark.parametrize(
    ("march", "op_type", "rule", "on"),
    [
        ("bayes-e", "Hardmax", "device.no-operator", On.CPU),
        ("bernoulli2", "Hardmax", "device.no-operator", On.CPU),
        ("bernoulli2", "GlobalAveragePool", "device.lacking", On.CPU),
        ("bayes-e", "GlobalAveragePool", "device.bpu", On.BPU),
        ("bayes-e", "Softmax", "device.on-request", On.CPU),
        ("bernoulli2", "Max", "device.late-operator", On.LATE),
        ("bayes-e", "Relu", "device.bpu", On.BPU),
    ],
)
def test_an_operator_alone(march: str, op_type: str, rule: str, on: On) -> None:
    (node,) = (node for node in network([one(op_type, "c0")]).graph if node.name == "Middle")
    site = DeviceSite(node, load_chip(march))
    found = OPERATORS.decide(site, load_chip(march).family)
    assert found is not None
    assert (found.id, found.then.on) == (rule, on)
    assert (found.then.reason(site) is None) is (on is On.BPU)


@pytest.mark.parametrize(("channels", "on"), [(1, On.BPU), (3, On.CPU)])
def test_bernoulli2_multiplies_single_matrices(channels: int, on: On) -> None:
    """Ten of ten with one, none of four with several (``tests/parity/recorded/matmul`` has four of them)."""
    matrices = ir.val("m", dtype=ir.DataType.FLOAT, shape=[1, channels, 4, 4])
    node = ir.node("MatMul", [matrices, matrices], name="m", outputs=[ir.val("y", shape=[1, channels, 4, 4])])
    node.outputs[0].dtype = ir.DataType.FLOAT
    chip = load_chip("bernoulli2")
    found = OPERATORS.decide(DeviceSite(node, chip), chip.family)
    assert found is not None
    assert found.then.on is on
    assert (found.id == "device.several-matrices") is (on is On.CPU)


def test_what_is_refused_late_has_left_the_bpu_before_floats_are_moved() -> None:
    assert [step.settled for step in STEPS] == [False] * (len(STEPS) - 2) + [True, False]
