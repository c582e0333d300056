"""What inputs expect and are fed with."""

from __future__ import annotations

from typing import Any

import pytest

from engine.config import parse_config
from engine.config.inputs import InputSpec
from engine.errors import ConfigError
from engine.terms import Layout, SpaceAndRange
from tests.engine.config.contents import TWO_INPUTS, VALID, changed


def test_several_inputs() -> None:
    content = changed(calibration__cal_data_dir="a;b", calibration__cal_data_type="uint8; float32")
    content["input_parameters"] = TWO_INPUTS
    first, second = parse_config(content).input_specs(["b", "a"])
    assert (first.name, first.scale, first.mean, first.layout_rt) == ("a", (0.5,), (), Layout.NHWC)
    assert (second.name, second.scale, second.shape, second.is_image) == ("b", (), (1, 8), False)


def test_inputs_must_be_those_of_the_model() -> None:
    config = parse_config(VALID)
    with pytest.raises(ConfigError, match=r"describe 1 inputs, the model has 2"):
        config.input_specs(["data", "more"])
    with pytest.raises(
        ConfigError, match=r"'data' is not an input of the model; allowed are \['date'\]; did you mean 'date'"
    ):
        config.input_specs(["date"])
    unnamed = parse_config(changed(input__input_name=""))
    assert unnamed.input_specs(["x"])[0].name == "x"


def test_mean_without_effect_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    spec = parse_config(changed(input__norm_type="data_scale")).input_specs(["data"])[0]
    assert spec.mean == ()
    assert "mean_value has no effect" in caplog.text


def test_video_range_is_of_nv12_only(caplog: pytest.LogCaptureFixture) -> None:
    video = parse_config(changed(input__input_space_and_range="bt601_video"))
    assert video.input_specs(["data"])[0].space_and_range is SpaceAndRange.BT601_VIDEO
    other = parse_config(changed(input__input_space_and_range="bt601_video", input__input_type_rt="rgb"))
    assert other.input_specs(["data"])[0].space_and_range is SpaceAndRange.REGULAR
    assert "input_space_and_range has no effect" in caplog.text
    wrong = parse_config(changed(input__input_space_and_range="bt601_video", input__input_type_rt="yuv444"))
    with pytest.raises(ConfigError, match="input_space_and_range 'bt601_video' and input_type_rt 'yuv444' exclude"):
        wrong.input_specs(["data"])


def test_batches_of_several_inputs_are_of_one_dialect() -> None:
    content = changed(calibration__cal_data_dir="a;b", calibration__cal_data_type="uint8; float32")
    content["input_parameters"] = {**TWO_INPUTS, "input_batch": 4}
    with pytest.raises(ConfigError, match="input_batch 4 needs a model with a single input, given are 2"):
        parse_config(content)
    assert parse_config(content, batch_of_several_inputs=True).input_parameters.input_batch == 4
    content["input_parameters"]["input_shape"] = "1x3x32x32; 2x8"
    with pytest.raises(ConfigError, match="first dimension is 1, given is 2x8"):
        parse_config(content, batch_of_several_inputs=True)


def test_a_spec_has_the_values_of_its_norm_type() -> None:
    with pytest.raises(ConfigError, match="input 'x': norm_type 'data_mean' needs mean"):
        InputSpec(name="x", type_train="rgb", type_rt="rgb", norm_type="data_mean")
    with pytest.raises(ConfigError, match="input 'x': norm_type 'no_preprocess' takes no scale"):
        InputSpec(name="x", type_train="rgb", type_rt="rgb", scale=(0.5,))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"input__input_name": "a; a", "input__input_type_train": "rgb; rgb"}, "Wrong input_layout_train num given"),
        ({"input__input_type_train": "featuremap"}, "not supported transform to input_type_rt 'nv12'"),
        (
            {"input__input_type_train": "featuremap", "input__input_type_rt": "featuremap"},
            "a featuremap is not preprocessed: its norm_type must be no_preprocess, not 'data_mean_and_scale'",
        ),
        ({"input__mean_value": "None"}, "norm_type 'data_mean_and_scale' needs mean_value"),
    ],
)
def test_entries_that_contradict_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(changed(**changes))
    assert text in str(caught.value)


def test_an_input_is_named_once() -> None:
    content = changed(calibration__cal_data_dir="a;b", calibration__cal_data_type=...)
    content["input_parameters"] = TWO_INPUTS | {"input_name": "a; a"}
    with pytest.raises(ConfigError, match=r"input_name \['a', 'a'\] contains an input twice"):
        parse_config(content)
    content["input_parameters"] = TWO_INPUTS | {"input_name": ""}
    with pytest.raises(ConfigError, match=r"input_name is needed: the model has 2 inputs, \['x', 'y'\]"):
        parse_config(content).input_specs(["x", "y"])


@pytest.mark.parametrize(("batch", "shape"), [(128, "1x3x32x32"), (1, "4x3x32x32")])
def test_a_batch_of_one_says_nothing_of_the_shape(batch: int, shape: str) -> None:
    content = changed(input__input_batch=batch, input__input_shape=shape)
    assert parse_config(content).input_parameters.input_batch == batch


def test_the_layout_of_nv12_is_fixed() -> None:
    for kind, expected in (("nv12", None), ("rgb", Layout.NHWC)):
        assert parse_config(changed(input__input_type_rt=kind)).input_specs(["data"])[0].layout_rt is expected


def test_only_a_featuremap_is_no_image() -> None:
    assert [InputSpec(name="x", type_train=kind).is_image for kind in ("rgb", "gray", "featuremap")] == [
        True,
        True,
        False,
    ]


def test_a_shape_may_be_that_of_the_file() -> None:
    """A scalar beside a dynamic input: no shape can be written for it."""
    content = changed(calibration__cal_data_dir="a;b", calibration__cal_data_type="uint8; float32")
    content["input_parameters"] = {**TWO_INPUTS, "input_shape": "1x3x8x8; None"}
    shapes = [spec.shape for spec in parse_config(content).input_specs(["b", "a"])]
    assert shapes == [(1, 3, 8, 8), None]


def test_fixed_inputs_are_read_and_leave_the_rest() -> None:
    content = changed(calibration__cal_data_dir="a;b", calibration__cal_data_type="uint8; float32")
    content["input_parameters"] = TWO_INPUTS
    config = parse_config(content).with_fixed_inputs({"b": (16000.0,)})
    assert config.input_parameters.fixed_inputs == {"b": (16000.0,)}
    assert [spec.name for spec in config.input_specs(["a"])] == ["a"]
    assert [path.name for path in config.calibration_parameters.cal_data_dir] == ["a"]
    given = parse_config(changed(input__fixed_inputs="sr=16000; on=true, 0"))
    assert given.input_parameters.fixed_inputs == {"sr": (16000.0,), "on": (1.0, 0.0)}
    with pytest.raises(ConfigError, match="write NAME=VALUE"):
        parse_config(changed(input__fixed_inputs="sr"))
