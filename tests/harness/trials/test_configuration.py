"""A trial as the configuration of a conversion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.chips import March
from engine.errors import ConfigError
from harness.files.strict_yaml import as_plain, parse
from harness.suites.settings import Settings
from harness.trials.configuration import configuration, content
from harness.zoo.cards import ModelCard, load_card
from tests.harness import fakes

GRAY, COLOUR = load_card("mnist_lenet"), load_card("scene_unet")


def written(card: Any = COLOUR, nodes: tuple[str, ...] = (), **settings: Any) -> dict[str, dict[str, Any]]:
    spec = fakes.spec(card.name, Settings.model_validate(settings))
    return content(card, spec, nodes, Path("m.onnx"), [Path("data")])


def test_the_model_is_the_card_s_and_the_data_are_raw_bytes() -> None:
    found = written(GRAY, ("conv",), per_channel=True)
    assert found["model_parameters"]["onnx_model"] == "m.onnx"
    assert found["model_parameters"]["output_model_file_prefix"] == "mnist_lenet"
    assert found["model_parameters"]["working_dir"] == "out"
    assert list(found["model_parameters"]["node_info"]) == ["conv"]
    assert found["input_parameters"] == GRAY.converter_yaml()
    assert found["calibration_parameters"] == {
        "cal_data_dir": "data",
        "cal_data_type": "uint8",
        "calibration_type": "max",
        "per_channel": True,
    }
    assert found["compiler_parameters"] == {"compile_mode": "latency", "optimize_level": "O2"}


def test_another_format_at_run_time_has_the_layout_of_the_training() -> None:
    base = dict(COLOUR.converter_yaml())
    assert base["input_type_rt"] == "rgb"
    assert "input_layout_rt" not in written(input_type_rt="nv12")["input_parameters"]
    given = written(input_type_rt="yuv444")["input_parameters"]
    assert given["input_layout_rt"] == base.get("input_layout_rt", base["input_layout_train"])
    parameters = {name: value for name, value in base.items() if name != "input_layout_rt"}
    bare = parse({**as_plain(COLOUR), "input_parameters": parameters}, ModelCard, "card")
    assert written(bare, input_type_rt="bgr")["input_parameters"]["input_layout_rt"] == base["input_layout_train"]
    assert "input_layout_rt" not in written(bare)["input_parameters"]


def test_a_march_without_int16_refuses_it_by_the_trial_s_name() -> None:
    spec = fakes.spec(GRAY.name, march=March("bernoulli2"))
    assert configuration(GRAY, spec, (), Path("m.onnx")).model_parameters.march.value == "bernoulli2"
    with pytest.raises(ConfigError, match="trial mnist_lenet/bernoulli2/max"):
        configuration(GRAY, spec, ("conv",), Path("m.onnx"))
