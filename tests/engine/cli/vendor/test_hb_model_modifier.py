"""Nodes removed from the ends of a container."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from engine.cli.vendor import hb_model_info, hb_model_modifier
from engine.compile import compile_model, load_bin
from engine.compile.removal import dequantized
from engine.ir import load_model
from engine.simulate import Session
from engine.simulate.tensors import random_feed
from tests.engine.cli.vendor.board import GOLDEN, run


def test_removes_from_the_ends_inwards(folder: Path) -> None:
    listed = run(hb_model_modifier.app, "feature.bin")
    assert "Nodes that can be deleted" in listed
    shown = run(hb_model_modifier.app, "feature.bin", "-a", "Quantize", "-a", "Transpose", "-a", "Dequantize")
    assert "scale: [" in shown
    modified = load_bin(folder / "feature_modified.bin")
    kinds = {node.op_type for node in modified.model.graph}
    assert not kinds & {"HzQuantize", "HzDequantize"}
    assert all(value.dtype is not None and value.dtype.is_integer() for value in modified.model.graph.inputs)
    info = run(hb_model_info.app, "feature_modified.bin")
    for node in modified.removed:
        assert f"deleted nodes: {node.name}" in info
    lines = (folder / "deleted_nodes_info.txt").read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == [node.name for node in modified.removed]


def test_the_rest_computes_the_same(folder: Path) -> None:
    whole = load_bin(folder / "feature.bin")
    run(hb_model_modifier.app, "feature.bin", "-a", "Dequantize", "-o", "cut.bin")
    cut = load_bin(folder / "cut.bin")
    session = Session(whole.model)
    feed = random_feed(session.inputs, 1)
    expected, found = session.run(feed), Session(cut.model).run(feed)
    scaled = dequantized(cut, found)
    for first, second in zip(expected.values(), scaled.values(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_removes_a_chain_at_an_output(folder: Path) -> None:
    """Each node stands at the output once the one behind it is gone."""
    dense = load_model(GOLDEN / "b2_gemm.quant.onnx")
    compile_model(dense, "bernoulli2", None, "dense").save("dense.bin")
    reshape, dequantize = list(dense.graph)[:-3:-1]
    run(hb_model_modifier.app, "--model_file", "dense.bin", "-r", str(reshape.name), "-r", str(dequantize.name))
    modified = load_bin(folder / "dense_modified.bin")
    assert [node.type for node in modified.removed] == ["Reshape", "Dequantize"]
    assert [str(value.name) for value in modified.model.graph.outputs] == [str(dequantize.inputs[0].name)]


def test_options_count_in_their_order(folder: Path) -> None:
    ends = [node for node in load_bin(folder / "feature.bin").model.graph if node.op_type == "HzDequantize"]
    name = str(ends[0].name)
    shown = run(hb_model_modifier.app, "feature.bin", "-a", "Dequantize", "-r", name, "-o", "a.bin")
    assert f"Node '{name}' is not adjacent to input or output. It can not be removed! Skipped!" in shown
    shown = run(hb_model_modifier.app, "feature.bin", "-r", name, "-a", "Dequantize", "-o", "b.bin")
    assert "Skipped!" not in shown
    assert ("No Dequantize node is adjacent" in shown) == (len(ends) == 1)


def test_a_type_that_stands_at_no_end_is_told(folder: Path) -> None:
    shown = run(hb_model_modifier.app, "feature.bin", "-a", "Softmax")
    assert "No Softmax node is adjacent to input or output" in shown
    assert "No node was removed" in shown


def test_one_file_is_given(folder: Path) -> None:
    for arguments in ([], ["feature.bin", "--model_file", "image.bin"]):
        assert "give one .bin file" in run(hb_model_modifier.app, *arguments, code=2)


def test_a_node_inside_is_skipped(folder: Path) -> None:
    inside = next(str(n.name) for n in load_bin(folder / "feature.bin").model.graph if n.op_type == "HzSQuantizedConv")
    assert "It can not be removed! Skipped!" in run(hb_model_modifier.app, "feature.bin", "-r", inside)
