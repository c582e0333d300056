"""Devices of the nodes of a quantised graph."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from engine.chips import load_chip
from engine.compile.partition import device_of, is_border_copy, is_layout_change, partition
from engine.errors import ModelError, UnsupportedError
from engine.terms import Device

MARCH = load_chip("bayes-e")


def tensor(name: str, dtype: ir.DataType | None) -> ir.Value:
    return ir.Value(name=name, type=None if dtype is None else ir.TensorType(dtype), shape=ir.Shape([1, 4, 4, 8]))


def node(op_type: str, dtype: ir.DataType | None, domain: str = "") -> ir.Node:
    return ir.node(op_type, [tensor("x", dtype)], domain=domain, outputs=[tensor("y", dtype)], name="n")


def test_operators_of_the_bpu_on_integers_run_there() -> None:
    assert device_of(node("Reshape", ir.DataType.INT8), MARCH) is Device.BPU
    assert device_of(node("HzLut", ir.DataType.INT8, "horizon"), MARCH) is Device.BPU


def test_floats_and_operators_that_the_bpu_does_not_have_run_on_the_cpu() -> None:
    assert device_of(node("Reshape", ir.DataType.FLOAT), MARCH) is Device.CPU
    assert device_of(node("Mod", ir.DataType.INT32), MARCH) is Device.CPU
    assert device_of(node("Reshape", ir.DataType.INT8, "somebody.else"), MARCH) is Device.CPU


def test_unknown_operators_and_types_are_named() -> None:
    with pytest.raises(UnsupportedError, match="HzNothing is not known"):
        device_of(node("HzNothing", ir.DataType.INT8, "horizon"), MARCH)
    with pytest.raises(ModelError, match="tensor x: its element type is unknown"):
        device_of(node("Reshape", None), MARCH)


def test_transposes_of_bernoulli2_run_on_the_cpu() -> None:
    """Between a Slice and a Concat of ``swin_b``."""
    assert device_of(node("Transpose", ir.DataType.INT8), MARCH) is Device.BPU
    assert device_of(node("Transpose", ir.DataType.INT8), load_chip("bernoulli2")) is Device.CPU


def test_moved_int32_results_are_work_for_the_cpu() -> None:
    """``Slice_252`` of yolo11: only layout changes of accumulators are the BPU's."""
    assert device_of(node("Slice", ir.DataType.INT32), MARCH) is Device.CPU
    layout = node("Reshape", ir.DataType.INT32)
    layout.name = "Conv_NHWC2NCHW_LayoutConvert_Output0_reshape"
    assert device_of(layout, MARCH) is Device.BPU


def graph_of(*steps: str) -> ir.Graph:
    """Nodes ``name = Type(inputs)`` on int8 maps; ``Mod`` is the CPU's, ``Turn`` a change of layout."""
    values = {"x": tensor("x", ir.DataType.INT8)}
    nodes = []
    for step in steps:
        name, rest = step.split(" = ")
        kind, given = rest.rstrip(")").split("(")
        values[name] = tensor(name, ir.DataType.INT8)
        turn = {"perm": [0, 2, 3, 1]} if kind == "Turn" else {}
        op_type, domain = ("Transpose", "") if kind == "Turn" else (kind, "horizon" if kind.startswith("Hz") else "")
        inputs = [values[other] for other in given.split(", ")]
        nodes.append(ir.node(op_type, inputs, turn, domain=domain, outputs=[values[name]], name=name))
    return ir.Graph([values["x"]], [nodes[-1].outputs[0]], nodes=nodes, name="g")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["a = HzLut(x)", "b = HzLut(a)"], [("BPU", "ab")]),
        (["a = HzLut(x)", "b = HzLut(x)"], [("BPU", "ab")]),
        (["a = HzLut(x)", "m = Mod(a)", "b = HzLut(m)"], [("BPU", "a"), ("CPU", "m"), ("BPU", "b")]),
        (["m = Mod(x)", "a = HzLut(m)", "n = Mod(x)", "b = HzLut(n)"], [("CPU", "mn"), ("BPU", "a"), ("BPU", "b")]),
        (
            ["a = HzLut(x)", "m = Mod(a)", "b = Concat(a, m)", "c = HzLut(a)"],
            [("BPU", "ac"), ("CPU", "m"), ("BPU", "b")],
        ),
        (["t = Turn(x)", "m = Mod(t)", "a = HzLut(m)"], [("CPU", "tm"), ("BPU", "a")]),
        (["t = Turn(x)", "a = HzLut(t)"], [("BPU", "ta")]),
        (
            ["a = HzLut(x)", "m = Mod(a)", "n = Mod(x)", "t = Turn(n)", "b = Concat(m, t)"],
            [("CPU", "n"), ("BPU", "a"), ("CPU", "m"), ("BPU", "tb")],
        ),
        (
            ["a = HzLut(x)", "m = Mod(a)", "n = Mod(x)", "t = Reshape(n)", "b = HzLut(t)", "c = Concat(m, b)"],
            [("CPU", "n"), ("BPU", "a"), ("CPU", "m"), ("BPU", "tbc")],
        ),
        (
            ["a = HzLut(x)", "m = Mod(a)", "n = Mod(x)", "t = HzLut(n)", "d = Mod(t)", "c = Concat(m, t)"],
            [("CPU", "n"), ("BPU", "a"), ("BPU", "t"), ("CPU", "md"), ("BPU", "c")],
        ),
    ],
)
def test_connected_nodes_of_one_level_run_together(steps: list[str], expected: list[tuple[str, str]]) -> None:
    found = partition(graph_of(*steps), MARCH)
    assert [(part.device.value, "".join(str(node.name) for node in part.nodes)) for part in found] == expected


def test_models_without_a_bpu_node_are_refused() -> None:
    with pytest.raises(ModelError, match="graph g: no node runs on the BPU; compile takes a quantized model"):
        partition(graph_of("m = Mod(x)"), MARCH)


@pytest.mark.parametrize(("perm", "expected"), [([0, 2, 3, 1], True), ([0, 3, 1, 2], True), ([0, 1, 3, 2], False)])
def test_layout_changes_turn_channels_alone(perm: list[int], expected: bool) -> None:
    assert is_layout_change(ir.node("Transpose", [tensor("x", None)], {"perm": perm})) is expected
    assert not is_layout_change(ir.node("Transpose", [tensor("x", None)]))


def test_what_the_converter_put_in_bears_its_name() -> None:
    found = [
        is_border_copy(ir.node(kind, [tensor("x", None)], name=name))
        for kind, name in (
            ("Transpose", "a_LayoutConvert_b"),
            ("Reshape", "a_LayoutConvert_b"),
            ("Reshape", "a"),
            ("Cast", "a_LayoutConvert_b"),
        )
    ]
    assert found == [True, True, False, False]
