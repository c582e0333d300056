"""What a container was made from and with."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path

from engine.cli.vendor import hb_model_info, hb_model_modifier
from engine.compile import load_bin
from tests.engine.cli.vendor.board import run


def test_parameters_inputs_and_outputs(folder: Path) -> None:
    model = load_bin(folder / "feature.bin")
    lines = run(hb_model_info.app, "feature.bin").splitlines()
    assert lines[:2] == ["Start hb_model_info....", f"hb_model_info version {version('ptqlab')}"]
    assert "******** feature info *********" in lines
    assert "BPU march : bayes-e" in lines
    pairs = {tuple(re.split(" +: ", line)) for line in lines}
    assert ("optimize_level", "O2") in pairs, "the options stand in for a group that was not given"
    (value,) = model.model.graph.inputs
    shape = "x".join(map(str, value.shape))
    assert f"model input {value.name} : {shape} {value.dtype.numpy().name}" in lines
    assert not [line for line in lines if line.startswith("deleted")]
    assert not (folder / "deleted_nodes_info.txt").exists()


def test_groups_that_were_given_are_shown_in_columns(folder: Path) -> None:
    from dataclasses import replace

    model = load_bin(folder / "feature.bin")
    groups = {"compiler_parameters": {"debug": "True", "core_num": "1"}}
    replace(model, parameters=groups).save(folder / "given.bin")
    text = run(hb_model_info.app, "given.bin")
    assert "############# compiler_parameters info #############\ndebug    : True\ncore_num : 1\n" in text
    assert text.count("compiler_parameters info") == 1


def test_removed_nodes_are_listed_and_written(folder: Path) -> None:
    run(hb_model_modifier.app, "feature.bin", "-a", "Dequantize", "-o", "cut.bin")
    removed = load_bin(folder / "cut.bin").removed
    text = run(hb_model_info.app, "cut.bin")
    assert removed
    for node in removed:
        assert f"deleted nodes: {node.name}" in text
    lines = (folder / "deleted_nodes_info.txt").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [json.loads(node.model_dump_json()) for node in removed]


def test_what_is_no_container_is_an_error(folder: Path) -> None:
    (folder / "broken.bin").write_bytes(b"no model")
    assert "ERROR broken.bin: " in run(hb_model_info.app, "broken.bin", code=255)
