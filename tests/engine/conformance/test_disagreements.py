"""Known disagreements: which networks they concern, and the table of the documentation."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest
from onnx import ModelProto, TensorProto, helper

from engine.chips import MEASURED_MARCHES
from engine.config import parse_config
from engine.conformance.departure import ComparedStage
from engine.conformance.disagreements import Construct, Disagreement, known, settings_of
from tests.configurations import FEATUREMAP

DOCUMENT = Path(__file__).parents[3] / "docs" / "evidence" / "conformance.md"


def as_markdown() -> str:
    """The table of the documentation."""
    lines = ["| | network | node | stage | cause | effect | explain warns at |", "|---|---|---|---|---|---|---|"]
    for index, item in enumerate(known(), 1):
        cells = (str(index), item.network, f"`{item.node}`", item.stage.value, item.cause, item.effect)
        lines.append(f"| {' | '.join((*cells, item.where or 'nothing: what brings it is unknown'))} |")
    return "\n".join(lines)


def model() -> ModelProto:
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["r"], "relu"),
            helper.make_node("MaxPool", ["r"], ["y"], "pool", kernel_shape=[3, 3], dilations=[1, 2]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph)


def nodes() -> dict[str, ir.Node]:
    return {str(node.name): node for node in ir.from_proto(model()).graph}


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
        assert item.rests_on is None or set(item.rests_on.marches) <= set(MEASURED_MARCHES)


def test_settings_of_a_configuration() -> None:
    changed = {
        **FEATUREMAP,
        "model_parameters": {**FEATUREMAP["model_parameters"], "node_info": {"a": {"InputType": "int16"}}},
        "compiler_parameters": {"optimize_level": "O1"},
    }
    plain = {"calibration_type: max", "per_channel: false"}
    assert settings_of(parse_config(FEATUREMAP)) == plain | {"optimize_level: O2"}
    assert settings_of(parse_config(changed)) == plain | {"optimize_level: O1", "int16"}
    calibration = {**FEATUREMAP["calibration_parameters"], "per_channel": True, "optimization": "set_Add_input_int16"}
    asked = settings_of(parse_config({**FEATUREMAP, "calibration_parameters": calibration}))
    assert {"per_channel: true", "int16", "optimization: set_Add_input_int16"} < asked


def test_a_disagreement_needs_its_settings_and_its_construct() -> None:
    network = ir.from_proto(model())

    def concerned(settings: tuple[str, ...], construct: Construct | None = None) -> tuple[str, ...] | None:
        item = Disagreement(
            network="n",
            node="-",
            stage=ComparedStage.NAMES,
            cause="c",
            effect="e",
            rests_on=construct,
            settings=settings,
        )
        return item.nodes_of(network, "bayes-e", {"int16", "optimize_level: O1"})

    assert concerned(()) is None, "nothing is known of where it occurs"
    assert concerned(("int16",)) == ()
    assert concerned(("per_channel: true",)) is None
    assert concerned(("int16",), Construct(operator="Relu")) == ("relu",)
    assert concerned(("int16", "per_channel: true"), Construct(operator="Relu")) is None
    assert concerned((), Construct(operator="Conv")) is None


def test_documentation_has_the_table() -> None:
    assert as_markdown() in DOCUMENT.read_text(encoding="utf-8")
