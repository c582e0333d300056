"""What quirks decided, in the metadata of nodes."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from engine.errors import ConfigError
from engine.parity import QUIRKS
from engine.parity.decisions import decided, quirks_of, record


def model(*names: str) -> ir.Model:
    nodes = [ir.Node("", "Relu", [], name=name) for name in names]
    return ir.Model(ir.Graph([], [], nodes=nodes, opset_imports={"": 13}), ir_version=8)


def test_decisions_are_kept_once_and_in_order() -> None:
    first, second = tuple(QUIRKS)[:2]
    made = model("a", "b")
    a, b = made.graph
    for code in (second, first, second):
        record(a, code)
    record(b, second)
    assert [item.code for item in quirks_of(a)] == [second, first]
    assert {item.code: nodes for item, nodes in decided(made).items()} == {first: ("a",), second: ("a", "b")}


def test_stages_of_one_conversion_are_taken_together() -> None:
    code = next(iter(QUIRKS))
    before, after = model("a", "b"), model("b", "c")
    for node in (*before.graph, *after.graph):
        record(node, code)
    assert decided(before, after) == {QUIRKS[code]: ("a", "b", "c")}


def test_what_nothing_decided_has_no_mark() -> None:
    assert decided(model("a")) == {}
    with pytest.raises(ConfigError, match="no quirk"):
        record(next(iter(model("a").graph)), "another")
