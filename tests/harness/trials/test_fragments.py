"""A trial's settings as a converter's YAML file asks for them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from engine.chips import March
from engine.config import parse_config
from harness.suites.settings import Settings
from harness.trials.fragments import as_yaml, fragment
from harness.zoo.cards import load_card
from tests.harness import fakes


def asked(nodes: tuple[str, ...] = (), **settings: Any) -> dict[str, Any]:
    return fragment(fakes.spec(settings=Settings.model_validate(settings)), nodes)


def test_defaults_ask_for_no_more_than_march_and_method() -> None:
    assert fragment(fakes.spec(march=March("nash-e")), ()) == {
        "model_parameters": {"march": "nash-e"},
        "calibration_parameters": {"calibration_type": "max"},
    }


@pytest.mark.parametrize(
    ("settings", "group", "key", "value"),
    [
        ({"max_percentile": 0.99}, "calibration", "max_percentile", 0.99),
        ({"per_channel": True}, "calibration", "per_channel", True),
        ({"asymmetric": True, "mse_thresholds": True}, "calibration", "optimization", "asymmetric;mse_thresholds"),
        ({"compatibility": "clean"}, "model", "compatibility", "clean"),
        ({"input_type_rt": "nv12"}, "input", "input_type_rt", "nv12"),
    ],
)
def test_each_setting_has_its_parameter(settings: dict[str, Any], group: str, key: str, value: Any) -> None:
    found = asked(**settings)[f"{group}_parameters"][key]
    assert sorted(found.split(";")) == sorted(value.split(";")) if key == "optimization" else found == value


def test_int16_is_asked_for_node_by_node() -> None:
    info = asked(("a", "b"))["model_parameters"]["node_info"]
    assert info == {name: {"InputType": "int16", "OutputType": "int16"} for name in ("a", "b")}


def test_what_is_written_is_what_the_converter_reads() -> None:
    """With what only the user knows."""
    written = asked(("a",), calibration_type="kl", per_channel=True, asymmetric=True, compatibility="clean")
    written["model_parameters"] |= {"onnx_model": "m.onnx", "output_model_file_prefix": "m"}
    written["input_parameters"] = load_card("mnist_lenet").converter_yaml()
    written["calibration_parameters"]["cal_data_dir"] = "data"
    config = parse_config(written, "test")
    assert config.calibration_parameters.calibration_type.value == "kl"
    assert config.calibration_parameters.per_channel
    assert list(config.model_parameters.node_info) == ["a"]


def test_text_says_which_trial_it_is_and_what_it_reached() -> None:
    result = fakes.result(fakes.spec(), value=0.91234, latency=1.5)
    assert result.accuracy is not None
    assert result.footprint is not None
    head, _, rest = as_yaml(result).partition("\n")
    total = result.footprint.total_ms
    assert head == f"# net/bayes-e/max: calibrated on 10 samples; top1 0.9123, {total:.3f} ms"
    assert yaml.safe_load(rest) == fragment(result.spec, ())
    assert as_yaml(fakes.failed(fakes.spec())).partition("\n")[0] == "# net/bayes-e/max: calibrated on 10 samples"
