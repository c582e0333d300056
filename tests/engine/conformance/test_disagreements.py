"""Known disagreements: which networks they concern, and the table of the documentation."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from engine.conformance.disagreements import Construct, as_markdown, known
from engine.march.rules import MARCHES

DOCUMENT = Path(__file__).parents[3] / "docs" / "evidence" / "conformance.md"


def nodes() -> dict[str, ir.Node]:
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["r"], "relu"),
            helper.make_node("MaxPool", ["r"], ["y"], "pool", kernel_shape=[3, 3], dilations=[1, 2]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return {str(node.name): node for node in ir.from_proto(helper.make_model(graph)).graph}


@pytest.mark.parametrize(
    ("name", "construct", "fits"),
    [
        ("pool", Construct(operator="MaxPool"), True),
        ("relu", Construct(operator="MaxPool"), False),
        ("pool", Construct(operator="MaxPool", marches=("bayes",)), False),
        ("relu", Construct(operator="Relu", ranks=(4,)), True),
        ("relu", Construct(operator="Relu", ranks=(3, 5)), False),
        ("pool", Construct(operator="MaxPool", at_least={"dilations": 2}), True),
        ("pool", Construct(operator="MaxPool", at_least={"dilations": 3}), False),
        ("pool", Construct(operator="MaxPool", at_least={"group": 1}), False),
        ("pool", Construct(operator="MaxPool", reads=("Relu",)), True),
        ("relu", Construct(operator="Relu", reads=("Conv",)), False),
        ("relu", Construct(operator="Relu", read_by=("MaxPool",)), True),
        ("pool", Construct(operator="MaxPool", read_by=("Conv",)), False),
    ],
)
def test_constructs(name: str, construct: Construct, fits: bool) -> None:
    assert construct.fits(nodes()[name], "bayes-e") is fits


def test_constructs_in_words() -> None:
    construct = Construct(operator="Conv", at_least={"dilations": 2}, read_by=("Relu",), marches=("bayes",))
    assert str(construct) == "Conv with dilations of 2 or more that Relu reads on bayes"


def test_the_list_is_complete_and_names_what_exists() -> None:
    assert 0 < len(known()) <= 15
    for item in known():
        assert item.cause
        assert item.effect
        assert (item.rests_on is None) == bool(item.option)
        assert item.rests_on is None or set(item.rests_on.marches) <= set(MARCHES)


def test_documentation_has_the_table() -> None:
    assert as_markdown() in DOCUMENT.read_text(encoding="utf-8")
