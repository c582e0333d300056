"""Rows of the corpus whose models are built."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ConfigError
from research.built import built_rows
from tests.research.rows import row

SCRIPT = """
import onnx
from onnx import TensorProto, helper

def build(spec, path):
    borders = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 8, 4, 4)) for name in "xy"]
    weight = helper.make_tensor("w", TensorProto.FLOAT, (8, 8, 1, 1), [0.5] * 64)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Transpose", ["c"], ["t"], "turn", perm=[0, 1, 3, 2]),
        helper.make_node("Conv", ["t", "w"], ["y"], "last"),
    ]
    graph = helper.make_graph(nodes, "g", borders[:1], borders[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7), path)
"""


def test_only_rows_that_the_reader_does_not_know_are_built(tmp_path: Path) -> None:
    script = tmp_path / "build_model.py"
    script.write_text(SCRIPT)
    known = row(8, 4, 1)
    unknown = known.model_copy(update={"spec": {"in": {"x": [1, 8, 4, 4]}, "layers": [{"op": "transpose"}]}})
    other_level = unknown.model_copy(update={"optimize_level": "O0"})
    found = built_rows([known, unknown, other_level], script)
    assert [entry is unknown for entry, _ in found] == [True]
    assert "last" in {layer.name for schedule in found[0][1] for layer in schedule.layers}


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.py"):
        built_rows([], tmp_path / "none.py")
