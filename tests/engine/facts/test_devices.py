"""What the marks of a node say of its device."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from engine.facts.devices import is_quantised, on_bpu, refused_late
from engine.ir import MARK_LATE, MARK_ON
from engine.terms import Device


@pytest.mark.parametrize(
    ("marks", "bpu", "late"),
    [
        ({}, False, False),
        ({MARK_ON: Device.CPU}, False, False),
        ({MARK_ON: Device.BPU}, True, False),
        ({MARK_ON: Device.CPU, MARK_LATE: "1"}, False, True),
        ({MARK_ON: Device.BPU, MARK_LATE: "1"}, True, False),
    ],
)
def test_a_node_is_late_once_it_has_left_the_bpu(marks: dict[str, str], bpu: bool, late: bool) -> None:
    node = ir.node("Relu", [ir.Value(name="x")], metadata_props=marks)
    assert (on_bpu(node), refused_late(node), is_quantised(node)) == (bpu, late, bpu or late)
