"""How values of shared options are read."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from engine.cli.lab.options import first_mistake, read_march, read_marches, read_node_info
from engine.config import NodeInfo
from engine.errors import ConfigError


def test_marches_by_the_names_given() -> None:
    assert read_marches("bayes, nash-e") == ("bayes", "nash-e")
    assert read_march("nash-m") == "nash-m"
    with pytest.raises(ConfigError, match="expected one architecture"):
        read_march("bayes,bayes-e")


@pytest.mark.parametrize(
    ("text", "message"),
    [("nano", "'nano': expected one of bernoulli2, bayes, bayes-e, nash-e, nash-m, nash-p"), ("", "''")],
)
def test_unknown_marches(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_marches(text)


def test_node_info_is_that_of_a_yaml_file() -> None:
    assert read_node_info(None) == {}
    assert read_node_info('{"a": {"ON": "CPU", "InputType0": "int16"}}') == {
        "a": NodeInfo.model_validate({"ON": "CPU", "InputType0": "int16"})
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "--node-info: not valid JSON"),
        ("[]", "--node-info: expected an object of nodes, found list"),
        ('{"a": {"In": "int16"}}', "In: .*; keys are ON, InputType, input_types, OutputType"),
        ('{"a": {"ON": "GPU"}}', "ON: .*BPU"),
    ],
)
def test_mistakes_in_node_info(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_node_info(text)


def test_only_the_first_mistake_is_named() -> None:
    with pytest.raises(ValidationError) as caught:
        NodeInfo.model_validate({"ON": "GPU", "OutputType": "int4"})
    assert first_mistake(caught.value, NodeInfo).startswith("ON: ")
    assert first_mistake("another", NodeInfo) == "another"
