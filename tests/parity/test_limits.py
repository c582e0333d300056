"""The measured limits (limits.csv): a probe of the largest size runs on the BPU, the next on the CPU, with a reason.

Placement needs shapes only, so the probes are built with the structure that their names say and constants of zeros.
Two bounds are of another kind and listed in ``NOT_PLACEMENT``.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.ir import MARK_ON
from engine.ops.core.reasons import sentence_of
from engine.optimize import optimize
from engine.place import place

pytestmark = pytest.mark.reference

NOT_PLACEMENT = {
    ("d2s_bs", "bernoulli2"): "the compiler refuses output channels that are no multiple of 4",
    ("s2d_bs", "bernoulli2"): "the compiler runs out of on-chip memory",
}
"""Bounds that the original meets after placement, in its compiler."""

CHANNELS = 16
Probe = tuple[list[onnx.NodeProto], tuple[int, ...], dict[str, np.ndarray[Any, Any]]]


def test_every_limit_is_respected_on_both_sides(reference_dir: Path) -> None:
    with (reference_dir / "operators" / "limits.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["probe"], row["march"]) not in NOT_PLACEMENT]
    assert len(rows) > 50
    wrong = []
    for row in rows:
        for column, expected in (("max_ok", "BPU"), ("first_bad", "CPU")):
            if row[column]:
                device, reason = placed(PROBES[row["probe"]](int(row[column])), row["march"])
                if device != expected or bool(reason) != (expected == "CPU"):
                    wrong.append((row["probe"], row["march"], row[column], device, reason))
    assert wrong == []


def placed(probe: Probe, march: str) -> tuple[str, str]:
    """Device and reason of the operator under test: CPU if any of its parts runs there."""
    nodes, shape, constants = probe
    graph = helper.make_graph(
        nodes,
        "probe",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)])
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto, strict_mode=True))
    marked = place(optimize(model, march), march).model
    tested = [node for node in marked.graph if str(node.name).startswith("op") and MARK_ON in node.metadata_props]
    if not tested:
        raise AssertionError("the operator under test has no node")
    refused = [node for node in tested if node.metadata_props[MARK_ON] == "CPU" and node.op_type != "Cast"]
    return ("CPU", sentence_of(refused[0])) if refused else ("BPU", "")


def conv(
    kernel: Sequence[int], cin: int = CHANNELS, cout: int = CHANNELS, group: int = 1, size: int = 4, **attributes: Any
) -> Probe:
    """One convolution on the smallest map that its window fits in."""
    dilation = attributes.get("dilations", [1, 1])
    shape = [max(size, (side - 1) * step + 1) for side, step in zip(kernel, dilation, strict=True)]
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="op", group=group, **attributes)
    return [node], (1, cin, *shape), {"w": np.zeros((cout, cin // group, *kernel), np.float32)}


def transposed(kernel: int, stride: int, **attributes: Any) -> Probe:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="op", strides=[stride, stride], **attributes)
    return [node], (1, CHANNELS, 8, 8), {"w": np.zeros((CHANNELS, CHANNELS, kernel, kernel), np.float32)}


def between(
    op_type: str,
    shape: tuple[int, ...],
    constants: Mapping[str, Any] | None = None,
    *,
    inputs: str = "c",
    **attributes: Any,
) -> Probe:
    """An operator between two 1x1 convolutions, so that its own result is no tail."""
    channels = shape[1]
    weight = np.zeros((channels, 1, 1, 1), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["c"], name="first", group=channels),
        helper.make_node(op_type, inputs.split(","), ["m"], name="op", **attributes),
    ]
    inferred = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info("m")],
        [
            numpy_helper.from_array(np.asarray(value), name)
            for name, value in {"first": weight, **(constants or {})}.items()
        ],
    )
    result = onnx.shape_inference.infer_shapes(
        helper.make_model(inferred, opset_imports=[helper.make_opsetid("", 11)]), data_prop=True
    ).graph.output[0]
    out = result.type.tensor_type.shape.dim[1].dim_value
    source = "m"
    if result.type.tensor_type.elem_type != TensorProto.FLOAT:
        nodes.append(helper.make_node("Cast", ["m"], ["f"], name="to_float", to=TensorProto.FLOAT))
        source = "f"
    nodes.append(helper.make_node("Conv", [source, "last"], ["y"], name="last", group=out))
    arrays = {name: np.asarray(value) for name, value in (constants or {}).items()}
    return nodes, shape, {"first": weight, "last": np.zeros((out, 1, 1, 1), np.float32), **arrays}


def resized(mode: str, before: int, factor: float) -> Probe:
    scales = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, factor, factor], np.float32)}
    options = {"coordinate_transformation_mode": "asymmetric"} if mode == "nearest" else {}
    if mode == "nearest":
        options["nearest_mode"] = "floor"
    return between("Resize", (1, CHANNELS, before, before), scales, inputs="c,roi,scales", mode=mode, **options)


def pool(op_type: str, kernel: int, stride: int, size: int) -> Probe:
    return between(op_type, (1, CHANNELS, size, size), kernel_shape=[kernel, kernel], strides=[stride, stride])


PROBES: Mapping[str, Callable[[int], Probe]] = {
    "conv_k": lambda v: conv([v, v], cin=4),
    "conv_k_w1": lambda v: conv([v, 1]),
    "dwconv_k": lambda v: conv([v, v], group=CHANNELS),
    "conv_k2_stride": lambda v: conv([2, 2], size=2 * v, strides=[v, v]),
    "conv_k3_dil": lambda v: conv([3, 3], dilations=[v, v]),
    "k2_dil": lambda v: conv([2, 2], dilations=[v, v]),
    "k5_dil": lambda v: conv([5, 5], dilations=[v, v]),
    "conv_k3_pad": lambda v: conv([3, 3], pads=[v] * 4),
    "conv_cin": lambda v: conv([1, 1], cin=v),
    "conv3_cin": lambda v: conv([3, 3], cin=v),
    "conv_cout": lambda v: conv([1, 1], cout=v),
    "group_n(cin=2g)": lambda v: conv([1, 1], cin=2 * v, cout=2 * v, group=v),
    "conv_H": lambda v: ([*conv([1, 1])[0]], (1, CHANNELS, v, 4), conv([1, 1])[2]),
    "conv_W": lambda v: ([*conv([1, 1])[0]], (1, CHANNELS, 4, v), conv([1, 1])[2]),
    "batch": lambda v: ([*conv([1, 1])[0]], (v, CHANNELS, 4, 4), conv([1, 1])[2]),
    "convk_cin1": lambda v: conv([v, v], cin=1),
    "convk_cin8": lambda v: conv([v, v], cin=8),
    "convk_cin16": lambda v: conv([v, v], cin=16),
    "conv1xk": lambda v: conv([1, v]),
    "convT_k(s2)": lambda v: transposed(v, 2),
    "convT_s(k=s)": lambda v: transposed(v, v),
    "convT_outpad(s4)": lambda v: transposed(4, 4, output_padding=[v, v]),
    "convT_k14_pad": lambda v: transposed(14, 2, pads=[v] * 4),
    "maxpool_k": lambda v: pool("MaxPool", v, 1, v + 2),
    "maxpool_s": lambda v: pool("MaxPool", 2, v, v + 4),
    "avgpool_k": lambda v: pool("AveragePool", v, 1, v + 2),
    "avgpool_s": lambda v: pool("AveragePool", 2, v, v + 4),
    "gap_HW": lambda v: between("GlobalAveragePool", (1, CHANNELS, v, v)),
    "resize_nearest_up": lambda v: resized("nearest", 4, v),
    "resize_nearest_down 1/v": lambda v: resized("nearest", 4 * v, 1 / v),
    "resize_linear_up": lambda v: resized("linear", 4, v),
    "resize_linear_down 1/v": lambda v: resized("linear", 4 * v, 1 / v),
    "argmax_C": lambda v: between("ArgMax", (1, v, 4, 4), axis=1, keepdims=1),
    "softmax_C(1xCx1x1)": lambda v: between("Softmax", (1, v, 1, 1), axis=1),
    "reducemax_C": lambda v: between("ReduceMax", (1, v, 4, 4), axes=[1], keepdims=1),
    "reducemean_C": lambda v: between("ReduceMean", (1, v, 4, 4), axes=[1], keepdims=1),
    "d2s_bs": lambda v: between("DepthToSpace", (1, 4 * v * v, 4, 4), blocksize=v),
    "s2d_bs": lambda v: between("SpaceToDepth", (1, 4, 4 * v, 4 * v), blocksize=v),
}
"""The probe of a size, by name."""
