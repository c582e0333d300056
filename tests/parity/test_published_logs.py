"""Blocks whose node tables the original's vendor published: our table has the same nodes in the same order.

Source: github.com/D-Robotics/rdk_model_zoo, hb_mapper 1.24.3, march bayes-e; docs/evidence/published_logs.md says which
files. Networks of the same structure with few channels, converted without data: what is requantised depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from engine.config import NodeInfo
from engine.convert import Draft, check
from engine.terms import DataType, Device
from tests.engine.optimize.equivalence import build
from tests.engine.optimize.networks import node, normal

TOKENS, HEADS, WIDTH, EDGES = 16, 2, 4, 3
CHANNELS = HEADS * WIDTH
MAP = {"x": (1, CHANNELS, 4, 4)}


def named(name: str, op_type: str, inputs: str, output: str = "", **attributes: object) -> onnx.NodeProto:
    """A node and its result, ``<name>_output_0`` as exporters call it unless ``output`` says otherwise."""
    made = node(op_type, inputs, output or f"{name}_output_0", **attributes)
    made.name = name
    return made


def shape(*sizes: int) -> NDArray[np.int64]:
    return np.asarray(sizes, np.int64)


def rows(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Any],
    node_info: Mapping[str, NodeInfo] | None = None,
) -> list[tuple[str, str, str]]:
    """Name, type and data type of the nodes in our table; all of them are on the BPU."""
    ir.save(build(nodes, MAP, ["y"], constants, opset=11), folder / "m.onnx")
    found = check(folder / "m.onnx", Draft(march="bayes-e", node_info=node_info or {})).nodes
    assert {row.on for row in found} == {"BPU"}
    return [(row.node, row.type, row.data_type) for row in found]


HYPERGRAPH = (
    named("in", "Conv", "x w"),
    named("tokens", "Reshape", "in_output_0 flat"),
    named("t", "Transpose", "tokens_output_0", perm=[0, 2, 1]),
    named("ReduceMean", "ReduceMean", "t_output_0", axes=[1], keepdims=0),
    named("ReduceMax", "ReduceMax", "t_output_0", axes=[1], keepdims=0),
    named("Concat", "Concat", "ReduceMean_output_0 ReduceMax_output_0", axis=-1),
    named("Gemm", "Gemm", "Concat_output_0 gw gb", transB=1),
    named("Reshape", "Reshape", "Gemm_output_0 edges"),
    named("Add", "Add", "base Reshape_output_0"),
    named("proj/MatMul", "MatMul", "t_output_0 pw"),
    named("proj/Add", "Add", "pb proj/MatMul_output_0"),
    named("Reshape_1", "Reshape", "proj/Add_output_0 heads"),
    named("Transpose", "Transpose", "Reshape_1_output_0", perm=[0, 2, 1, 3]),
    named("Reshape_2", "Reshape", "Add_output_0 edge_heads"),
    named("Transpose_1", "Transpose", "Reshape_2_output_0", perm=[0, 2, 1, 3]),
    named("Reshape_3", "Reshape", "Transpose_output_0 batch"),
    named("Reshape_4", "Reshape", "Transpose_1_output_0 edge_batch"),
    named("Transpose_2", "Transpose", "Reshape_4_output_0", perm=[0, 2, 1]),
    named("MatMul", "MatMul", "Reshape_3_output_0 Transpose_2_output_0"),
    named("Div", "Div", "MatMul_output_0 two"),
    named("Reshape_5", "Reshape", "Div_output_0 logits"),
    named("ReduceMean_1", "ReduceMean", "Reshape_5_output_0", axes=[1], keepdims=0),
    named("Transpose_3", "Transpose", "ReduceMean_1_output_0", perm=[0, 2, 1]),
    named("Softmax", "Softmax", "Transpose_3_output_0", axis=2),
    named("edges/MatMul", "MatMul", "Softmax_output_0 t_output_0"),
    named("Transpose_4", "Transpose", "Softmax_output_0", perm=[0, 2, 1]),
    named("nodes/MatMul", "MatMul", "Transpose_4_output_0 edges/MatMul_output_0"),
    named("back", "Transpose", "nodes/MatMul_output_0", perm=[0, 2, 1]),
    named("map", "Reshape", "back_output_0 image"),
    named("out", "Conv", "map_output_0 w", "y"),
)
HYPERGRAPH_CONSTANTS = {
    "w": normal(CHANNELS, CHANNELS, 1, 1),
    "flat": shape(1, CHANNELS, TOKENS),
    "gw": normal(EDGES * CHANNELS, 2 * CHANNELS),
    "gb": normal(EDGES * CHANNELS),
    "edges": shape(1, EDGES, CHANNELS),
    "base": normal(1, EDGES, CHANNELS),
    "pw": normal(CHANNELS, CHANNELS),
    "pb": normal(CHANNELS),
    "heads": shape(1, TOKENS, HEADS, WIDTH),
    "edge_heads": shape(1, EDGES, HEADS, WIDTH),
    "batch": shape(HEADS, TOKENS, WIDTH),
    "edge_batch": shape(HEADS, EDGES, WIDTH),
    "two": np.float32(2.0),
    "logits": shape(1, HEADS, TOKENS, EDGES),
    "image": shape(1, CHANNELS, 4, 4),
}
BETWEEN_SOFTMAX = [
    ("ReduceMean", "HzSQuantizedReduceMean"),
    ("ReduceMean_ReduceMean_keepdims_output_Transpose", "Transpose"),
    ("ReduceMax", "HzQuantizedReduceMax"),
    ("Concat", "Concat"),
    ("ConcatConcat_output_0_Reshape_0", "Reshape"),
    ("Gemm", "HzSQuantizedConv"),
    ("proj/MatMul_reshape_input", "Reshape"),
    ("proj/MatMul", "HzSQuantizedConv"),
    ("proj/Addproj/Add_output_0_Reshape_0", "Reshape"),
    ("Transpose", "Transpose"),
    ("Reshape_3", "Reshape"),
    ("Transpose_2", "Transpose"),
    ("MatMul", "HzSQuantizedMatmul"),
    ("Div_mul", "HzSElementwiseMul"),
    ("ReduceMean_1", "HzSQuantizedReduceMean"),
    ("Transpose_3", "Transpose"),
]
SOFTMAX_PARTS = ["reducemax", "sub", "exp", "reducesum", "reciprocal", "mul"]


@pytest.mark.parametrize(
    ("info", "width", "table"),
    [
        (NodeInfo(on=Device.BPU), "int8", "HzLut"),
        (NodeInfo(on=Device.BPU, input_type=DataType.INT16, output_type=DataType.INT16), "int16", "HzLut2Layer"),
    ],
    ids=["YOLOv13n", "YOLO11n"],
)
def test_hyperedges_and_a_softmax_on_the_bpu(tmp_path: Path, info: NodeInfo, width: str, table: str) -> None:
    """The log of YOLOv13n, in 8 bits; its Softmax in 16 bits as in the logs of YOLO11n."""
    found = rows(tmp_path, HYPERGRAPH, HYPERGRAPH_CONSTANTS, {"Softmax": info})
    names = [name for name, _, _ in found]
    first, last = names.index("ReduceMean"), names.index("Softmax_reducemax_FROM_QUANTIZED_SOFTMAX")
    assert [(name, kind) for name, kind, _ in found[first:last]] == BETWEEN_SOFTMAX
    types = ["HzQuantizedReduceMax", "HzSElementwiseSub", table, "HzSQuantizedReduceSum", table, "HzSElementwiseMul"]
    parts = [f"Softmax_{part}_FROM_QUANTIZED_SOFTMAX" for part in SOFTMAX_PARTS]
    assert found[last : last + 6] == list(zip(parts, types, [width] * 6, strict=True))
    behind = [(name, width) for name, kind, width in found[last + 6 :] if kind in ("HzSQuantizedMatmul", "Transpose")]
    moved = [name for name, _ in behind]
    assert sorted(moved) == ["Transpose_4", "back", "edges/MatMul", "nodes/MatMul"]
    assert {width for _, width in behind} == {"int8"}


AREAS = 2
AREA_ATTENTION = (
    named("qk", "Conv", "x w2"),
    named("Reshape", "Reshape", "qk_output_0 flat2"),
    named("Transpose", "Transpose", "Reshape_output_0", perm=[0, 2, 1]),
    named("v", "Conv", "x w"),
    named("pe", "Conv", "v_output_0 w"),
    named("Reshape_1", "Reshape", "v_output_0 flat"),
    named("Transpose_1", "Transpose", "Reshape_1_output_0", perm=[0, 2, 1]),
    named("Reshape_2", "Reshape", "Transpose_output_0 areas2"),
    named("Reshape_3", "Reshape", "Transpose_1_output_0 areas"),
    named("Slice_2", "Slice", "Reshape_2_output_0 zero half axis"),
    named("Slice_3", "Slice", "Reshape_2_output_0 half end axis"),
    named("Transpose_2", "Transpose", "Slice_2_output_0", perm=[0, 2, 1]),
    named("Reshape_4", "Reshape", "Transpose_2_output_0 heads"),
    named("Transpose_3", "Transpose", "Slice_3_output_0", perm=[0, 2, 1]),
    named("Reshape_5", "Reshape", "Transpose_3_output_0 heads"),
    named("Transpose_4", "Transpose", "Reshape_3_output_0", perm=[0, 2, 1]),
    named("Reshape_6", "Reshape", "Transpose_4_output_0 heads"),
    named("Transpose_5", "Transpose", "Reshape_4_output_0", perm=[0, 1, 3, 2]),
    named("MatMul", "MatMul", "Transpose_5_output_0 Reshape_5_output_0"),
    named("Mul", "Mul", "MatMul_output_0 two"),
    named("ReduceMax", "ReduceMax", "Mul_output_0", axes=[-1], keepdims=1),
    named("Sub", "Sub", "Mul_output_0 ReduceMax_output_0"),
    named("Exp", "Exp", "Sub_output_0"),
    named("ReduceSum", "ReduceSum", "Exp_output_0", axes=[-1], keepdims=1),
    named("Div", "Div", "Exp_output_0 ReduceSum_output_0"),
    named("Transpose_6", "Transpose", "Div_output_0", perm=[0, 1, 3, 2]),
    named("MatMul_1", "MatMul", "Reshape_6_output_0 Transpose_6_output_0"),
    named("Transpose_7", "Transpose", "MatMul_1_output_0", perm=[0, 3, 1, 2]),
    named("Reshape_7", "Reshape", "Transpose_7_output_0 joined"),
    named("Reshape_8", "Reshape", "Reshape_7_output_0 image"),
    named("Transpose_8", "Transpose", "Reshape_8_output_0", perm=[0, 3, 1, 2]),
    named("Add", "Add", "Transpose_8_output_0 pe_output_0"),
    named("proj", "Conv", "Add_output_0 w", "y"),
)
AREA_ROWS = [
    ("qk", "HzSQuantizedConv"),
    ("Reshape", "Reshape"),
    ("Transpose", "Transpose"),
    ("v", "HzSQuantizedConv"),
    ("Reshape_1", "Reshape"),
    ("Transpose_1", "Transpose"),
    ("Reshape_2", "Reshape"),
    ("Reshape_3", "Reshape"),
    ("Slice_2", "Slice"),
    ("Slice_3", "Slice"),
    *((f"{kind}_{index + later}", kind) for index in (2, 3, 4) for kind, later in (("Transpose", 0), ("Reshape", 2))),
    ("Transpose_5", "Transpose"),
    ("MatMul", "HzSQuantizedMatmul"),
    ("Mul", "HzSElementwiseMul"),
    ("ReduceMax", "HzQuantizedReduceMax"),
    ("Sub", "HzSElementwiseSub"),
    ("Exp", "HzLut"),
    ("ReduceSum", "HzSQuantizedReduceSum"),
    ("Div_reciprocal", "HzLut"),
    ("Div_mul", "HzSElementwiseMul"),
    ("Transpose_6", "Transpose"),
    ("MatMul_1", "HzSQuantizedMatmul"),
    ("Transpose_7", "Transpose"),
    ("Reshape_7", "Reshape"),
    ("pe", "HzSQuantizedConv"),
    ("proj", "HzSQuantizedConv"),
]


def test_area_attention(tmp_path: Path) -> None:
    """The log of YOLOv13n, eight blocks of two kinds; the tokens of an area are an element of a batch."""
    constants = {
        "w": normal(CHANNELS, CHANNELS, 1, 1),
        "w2": normal(2 * CHANNELS, CHANNELS, 1, 1),
        "flat": shape(1, CHANNELS, TOKENS),
        "flat2": shape(1, 2 * CHANNELS, TOKENS),
        "areas": shape(AREAS, TOKENS // AREAS, CHANNELS),
        "areas2": shape(AREAS, TOKENS // AREAS, 2 * CHANNELS),
        "zero": shape(0),
        "half": shape(CHANNELS),
        "end": shape(2 * CHANNELS),
        "axis": shape(2),
        "heads": shape(AREAS, HEADS, WIDTH, TOKENS // AREAS),
        "two": np.float32(0.7),
        "joined": shape(1, TOKENS, CHANNELS),
        "image": shape(1, 4, 4, CHANNELS),
    }
    assert [(name, kind) for name, kind, _ in rows(tmp_path, AREA_ATTENTION, constants)] == AREA_ROWS


BINS, CLASSES, ANCHORS = 4, 3, 16 + 4
LEVEL_MAPS = MAP | {"z": (1, CHANNELS, 2, 2)}
LEVELS = tuple(
    named(f"{kind}.{level}", "Conv", f"{x} {kind}") for level, x in enumerate(LEVEL_MAPS) for kind in ("box", "cls")
)
SLICES = (
    named("Slice", "Slice", "dfl/Reshape_1_output_0 zero two one"),
    named("Slice_1", "Slice", "dfl/Reshape_1_output_0 two four one"),
)
SPLIT = (named("Split_1", "Split", "dfl/Reshape_1_output_0", "Slice_output_0 Slice_1_output_0", axis=1, split=[2, 2]),)
DISTANCES = (
    named("dfl/Softmax", "Softmax", "dfl/Transpose_output_0", axis=1),
    named("dfl/conv", "Conv", "dfl/Softmax_output_0 bins"),
    named("dfl/Reshape_1", "Reshape", "dfl/conv_output_0 distances"),
)
DECODING = (
    named("Sub", "Sub", "anchors Slice_output_0"),
    named("Add_1", "Add", "anchors Slice_1_output_0"),
    named("Add_2", "Add", "Sub_output_0 Add_1_output_0"),
    named("Div_1", "Div", "Add_2_output_0 half"),
    named("Sub_1", "Sub", "Add_1_output_0 Sub_output_0"),
    named("Concat_4", "Concat", "Div_1_output_0 Sub_1_output_0", axis=1),
    named("Mul_2", "Mul", "Concat_4_output_0 strides"),
    named("Concat_5", "Concat", "Mul_2_output_0 Sigmoid_output_0", "y", axis=1),
)
ONE_SPLIT = (
    *LEVELS,
    *(named(f"Concat{end}", "Concat", f"box.{i}_output_0 cls.{i}_output_0", axis=1) for i, end in ((0, ""), (1, "_1"))),
    named("Reshape", "Reshape", "Concat_output_0 both"),
    named("Reshape_1", "Reshape", "Concat_1_output_0 both"),
    named("Concat_3", "Concat", "Reshape_output_0 Reshape_1_output_0", axis=2),
    named("Split", "Split", "Concat_3_output_0", "boxes classes", axis=1, split=[4 * BINS, CLASSES]),
    named("Sigmoid", "Sigmoid", "classes"),
    named("dfl/Reshape", "Reshape", "boxes sides"),
    named("dfl/Transpose", "Transpose", "dfl/Reshape_output_0", perm=[0, 2, 1, 3]),
    *DISTANCES,
    *SPLIT,
    *DECODING,
)
TWO_CONCATS = (
    *LEVELS,
    *(named(f"Reshape{end}", "Reshape", f"box.{i}_output_0 flat_box") for i, end in ((0, ""), (1, "_1"))),
    *(named(f"Reshape_{i + 3}", "Reshape", f"cls.{i}_output_0 flat_cls") for i in (0, 1)),
    named("Concat", "Concat", "Reshape_output_0 Reshape_1_output_0", axis=2),
    named("Concat_1", "Concat", "Reshape_3_output_0 Reshape_4_output_0", axis=2),
    named("Sigmoid", "Sigmoid", "Concat_1_output_0"),
    named("dfl/Reshape", "Reshape", "Concat_output_0 sides"),
    named("dfl/Transpose", "Transpose", "dfl/Reshape_output_0", perm=[0, 2, 1, 3]),
    *DISTANCES,
    *SLICES,
    *DECODING,
)
DECODED = tuple((name, "BPU", "int8") for name in ("Sub", "Add_1", "Add_2", "Div_1_mul", "Sub_1", "Concat_4", "Mul_2"))


@pytest.mark.parametrize(
    ("nodes", "before"),
    [
        (
            ONE_SPLIT,
            [
                *((name, "BPU", "int16") for name in ("Concat", "Concat_1", "Reshape", "Reshape_1", "Concat_3")),
                *((name, "BPU", "int16") for name in ("Split", "Sigmoid", "dfl/Reshape", "dfl/Transpose")),
                ("dfl/Softmax", "CPU", "float"),
                *((name, "BPU", "int8") for name in ("dfl/conv", "Split_1")),
            ],
        ),
        (
            TWO_CONCATS,
            [
                *((name, "CPU", "float") for name in ("Reshape", "Reshape_1")),
                *((name, "BPU", "int16") for name in ("Reshape_3", "Reshape_4")),
                ("Concat", "CPU", "float"),
                *((name, "BPU", "int16") for name in ("Concat_1", "Sigmoid")),
                *((name, "CPU", "float") for name in ("dfl/Reshape", "dfl/Transpose", "dfl/Softmax")),
                *((name, "BPU", "int8") for name in ("dfl/conv", "Slice", "Slice_1")),
            ],
        ),
    ],
    ids=["YOLOv8n", "YOLO11n"],
)
def test_heads_with_their_decoding(
    tmp_path: Path, nodes: Sequence[onnx.NodeProto], before: Sequence[tuple[str, str, str]]
) -> None:
    """Logs of two users: what leads to a Softmax on the CPU alone stays there unless the classes share it."""
    constants = {
        "box": normal(4 * BINS, CHANNELS, 1, 1),
        "cls": normal(CLASSES, CHANNELS, 1, 1),
        "both": shape(1, 4 * BINS + CLASSES, -1),
        "flat_box": shape(1, 4 * BINS, -1),
        "flat_cls": shape(1, CLASSES, -1),
        "sides": shape(1, 4, BINS, ANCHORS),
        "bins": normal(1, BINS, 1, 1),
        "distances": shape(1, 4, ANCHORS),
        **{name: shape(value) for name, value in (("zero", 0), ("one", 1), ("two", 2), ("four", 4))},
        "half": np.float32(2.0),
        "anchors": normal(1, 2, ANCHORS),
        "strides": normal(1, ANCHORS),
    }
    used = {name for node in nodes for name in node.input}
    ir.save(
        build(nodes, LEVEL_MAPS, ["y"], {name: array for name, array in constants.items() if name in used}, opset=11),
        tmp_path / "m.onnx",
    )
    table = check(tmp_path / "m.onnx", Draft(march="bayes-e")).nodes
    assert {row.node: row.type for row in table}["Div_1_mul"] == "HzSQuantizedConv"
    found = [(row.node, row.on, row.data_type) for row in table]
    end = [("Sigmoid_output_0_calibrated_Requantize", "BPU", "int16"), ("Concat_5", "BPU", "int16")]
    assert [row for row in found if row[0] not in {made.name for made in LEVELS}] == [*before, *DECODED, *end]
