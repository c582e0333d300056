"""The configuration: documented values, the original's error texts, nearest keys, paths."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.config import InputSpec, load_config, parse_config
from engine.errors import ConfigError
from engine.terms import CalibrationType, DataType, Device, InputType, Layout, NormType, SpaceAndRange

VALID: dict[str, Any] = {
    "model_parameters": {"onnx_model": "m.onnx", "march": "bayes-e", "output_model_file_prefix": "m"},
    "input_parameters": {
        "input_name": "data",
        "input_type_train": "rgb",
        "input_layout_train": "NCHW",
        "input_shape": "1x3x32x32",
        "norm_type": "data_mean_and_scale",
        "mean_value": "123.675 116.28 103.53",
        "scale_value": 0.0078125,
        "input_type_rt": "nv12",
        "input_layout_rt": "NHWC",
    },
    "calibration_parameters": {"cal_data_dir": "./cal", "cal_data_type": "float32", "calibration_type": "max"},
    "compiler_parameters": {"compile_mode": "latency", "debug": False, "optimize_level": "O3"},
}
TWO_INPUTS = {
    "input_name": "a; b",
    "input_type_train": "rgb; featuremap",
    "input_layout_train": "NCHW; NCHW",
    "input_shape": "1x3x32x32; 1x8",
    "norm_type": "data_scale; no_preprocess",
    "mean_value": "None; None",
    "scale_value": "0.5; None",
    "input_type_rt": "rgb; featuremap",
    "input_layout_rt": "NHWC; None",
}


def changed(**values: Any) -> dict[str, Any]:
    """``VALID`` with ``group__key`` set; ``...`` removes the key or, without ``__``, the group."""
    content = copy.deepcopy(VALID)
    for name, value in values.items():
        group, _, key = name.partition("__")
        group = "custom_op" if group == "custom_op" else f"{group}_parameters"
        target, key = (content[group], key) if key else (content, group)
        if value is ...:
            del target[key]
        else:
            target[key] = value
    return content


def test_values_are_typed() -> None:
    config = parse_config(VALID)
    (spec,) = config.input_specs(["data"])
    assert spec == InputSpec(
        name="data",
        type_train=InputType.RGB,
        layout_train=Layout.NCHW,
        type_rt=InputType.NV12,
        shape=(1, 3, 32, 32),
        norm_type=NormType.MEAN_AND_SCALE,
        mean=(123.675, 116.28, 103.53),
        scale=(0.0078125,),
    )
    assert config.compiler_parameters.optimize_level == "O3"
    assert config.calibration_parameters.calibration_type is CalibrationType.MAX


def test_defaults() -> None:
    config = parse_config(changed(compiler=..., input__norm_type=..., calibration__calibration_type=...))
    assert config.calibration_parameters.calibration_type is CalibrationType.DEFAULT
    assert config.calibration_parameters.max_percentile == 1.0
    assert config.compiler_parameters.compile_mode == "latency"
    assert config.model_parameters.working_dir == Path("model_output")
    assert config.input_specs(["data"])[0].norm_type is NormType.NONE


def test_keys_without_a_value_are_not_given() -> None:
    content = changed(model__node_info=None, calibration__run_on_cpu="", calibration__max_percentile=None)
    assert parse_config(content) == parse_config(VALID)


def test_several_inputs() -> None:
    content = changed(calibration__cal_data_dir="a;b", calibration__cal_data_type="uint8; float32")
    content["input_parameters"] = TWO_INPUTS
    first, second = parse_config(content).input_specs(["b", "a"])
    assert (first.name, first.scale, first.mean, first.layout_rt) == ("a", (0.5,), (), Layout.NHWC)
    assert (second.name, second.scale, second.shape, second.is_image) == ("b", (), (1, 8), False)


def test_none_stands_for_nothing_in_every_list() -> None:
    content = changed(calibration__cal_data_dir="a;b", calibration__cal_data_type="uint8; None")
    content["input_parameters"] = TWO_INPUTS | {
        "norm_type": "data_scale; 'None'",
        "mean_value": "'None'; 'None'",
        "input_space_and_range": "None; None",
    }
    config = parse_config(content)
    first, second = config.input_specs(["a", "b"])
    assert (first.mean, second.norm_type, second.scale) == ((), NormType.NONE, ())
    assert (first.space_and_range, second.space_and_range) == (SpaceAndRange.REGULAR,) * 2
    assert config.calibration_parameters.cal_data_type == ("uint8", None)


def test_a_node_called_by_a_number_may_be_written_as_one() -> None:
    model = parse_config(
        changed(model__node_info={5: {"ON": "BPU"}}, model__set_node_data_type={7: "int16"})
    ).model_parameters
    assert (list(model.node_info), list(model.set_node_data_type)) == (["5"], ["7"])


def test_node_info() -> None:
    info = parse_config(
        changed(
            model__node_info={"n": {"ON": "BPU", "InputType": "int8", "InputType1": "int16", "OutputType": "int16"}}
        )
    ).model_parameters.node_info["n"]
    assert (info.on, info.input_type, info.output_type) == (Device.BPU, DataType.INT8, DataType.INT16)
    assert info.input_types == {1: DataType.INT16}
    assert info.uses_int16


def test_names_are_split() -> None:
    parameters = parse_config(changed(calibration__run_on_cpu=" conv_0; conv_1 ;")).calibration_parameters
    assert parameters.run_on_cpu == ("conv_0", "conv_1")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"model": ...}, "Missing key: 'model_parameters'"),
        ({"model__march": ...}, "Key 'model_parameters' error: Missing key: 'march'"),
        (
            {"model__march": "nash-e"},
            "User input march invalid: 'nash-e' . It should in list ['bernoulli2', 'bayes', 'bayes-e']",
        ),
        ({"model__output_model_file_prefix": "a/b"}, "'a/b' must be the first part of a file name"),
        ({"calibration__asymmetric": True}, "Key 'calibration_parameters' error: Wrong key 'asymmetric' in ["),
        ({"calibration__max_percentil": 1.0}, "did you mean 'max_percentile'?"),
        ({"calibration__calibration_type": "fixed"}, "should in list ['default', 'mix', 'kl', 'max', 'load', 'skip']"),
        ({"calibration__max_percentile": 1.5}, "Invalid max_percentile: 1.5, avaliable range: 0~1"),
        ({"calibration__max_percentile": float("nan")}, "Invalid max_percentile: nan"),
        ({"calibration__cal_data_dir": ...}, "Wrong cal_dir num given, cal_dir num 0 is not equal to input num 1"),
        (
            {"calibration__cal_data_type": "float64"},
            "calibration_parameters.cal_data_type.0: 'float64' should in list [",
        ),
        (
            {"calibration__optimization": "no_such_option"},
            "The optimization parameter: no_such_option is not supported by BPU March",
        ),
        ({"calibration__optimization": "adaptive_roundin"}, "adaptive_rounding, mean_bias_correction, "),
        (
            {"calibration__optimization": "set_model_output_int8; set_model_output_int16"},
            "set_model_output_int8 and set_model_output_int16 exclude each other",
        ),
        (
            {"calibration__calibration_type": "load", "calibration__optimization": "cross_layer_equalization"},
            "cross_layer_equalization scales the tensors whose thresholds calibration_type load takes",
        ),
        ({"calibration__per_channel": 1}, "calibration_parameters.per_channel: 1: expected True or False"),
        ({"input__input_type_rt": "gray"}, "not supported transform to input_type_rt 'gray' for now."),
        ({"input__input_type_rt": "rgba"}, "'rgba' should in list ["),
        ({"input__input_type_train": "nv12"}, "not supported transform to input_type_rt 'nv12'"),
        ({"input__input_shape": "1x3xAx32"}, "'1x3xAx32' is no shape"),
        ({"input__input_shape": "0x3x32x32"}, "'0x3x32x32' is no shape"),
        ({"input__mean_value": "1 two"}, "'1 two' is neither None nor numbers"),
        ({"input__mean_value": "nan"}, "'nan' holds a value that is no finite float32 number"),
        ({"input__scale_value": "1e39"}, "'1e39' holds a value that is no finite float32 number"),
        ({"input__input_batch": True}, "input_parameters.input_batch: True: expected a number"),
        ({"calibration__max_percentile": True}, "True: expected a number"),
        ({"input__scale_value": ...}, "norm_type 'data_mean_and_scale' needs scale_value"),
        (
            {"input__norm_type": "data_mean; data_mean"},
            "Wrong norm_type num given, norm_type num 2 is not equal to input num 1",
        ),
        ({"input__input_batch": 129}, "input_parameters.input_batch: 129"),
        ({"input__input_batch": 2, "input__input_shape": "4x3x32x32"}, "whose first dimension is 1"),
        ({"compiler__optimize_level": "O4"}, "'O4' should in list ['O0', 'O1', 'O2', 'O3']"),
        ({"compiler__core_num": 2}, "march bayes-e computes on one core only"),
        ({"compiler__max_time_per_fc": 10}, "max_time_per_fc 10 must be 0 or 1000..4294967295"),
        ({"compiler__input_source": {"data": "disk"}}, "'disk' should in list ['ddr', 'pyramid', 'resizer']"),
        (
            {"model__node_info": {"n": {"ON": "GPU"}}},
            "model_parameters.node_info.n.ON: 'GPU' should in list ['BPU', 'CPU']",
        ),
        ({"model__node_info": {"n": {"OutputType0": "int16"}}}, "Wrong key 'OutputType0' in ['ON', 'InputType'"),
        (
            {"model__march": "bernoulli2", "model__node_info": {"n": {"InputType0": "int16"}}},
            "march bernoulli/bernoulli2: int16",
        ),
        (
            {"model__march": "bernoulli2", "input__input_type_rt": "yuv444", "input__input_layout_rt": "NCHW"},
            "does not support input_type_rt 'yuv444' with input_layout_rt 'NCHW'",
        ),
    ],
)
def test_errors_name_file_key_value_and_what_is_allowed(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(changed(**changes), "folder/x.yaml")
    assert str(caught.value).startswith("folder/x.yaml: ")
    assert text in str(caught.value)
    assert caught.value.exit_code == 255


def test_all_errors_are_listed() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(changed(model__march="x", compiler__optimize_level="O9"))
    assert len(str(caught.value).splitlines()) == 2


def test_unknown_group_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'compiler_parameters'"):
        parse_config({**VALID, "compile_parameters": {}})


def test_inputs_must_be_those_of_the_model() -> None:
    config = parse_config(VALID)
    with pytest.raises(ConfigError, match=r"describe 1 inputs, the model has 2"):
        config.input_specs(["data", "more"])
    with pytest.raises(
        ConfigError, match=r"'data' is no input of the model; allowed are \['date'\]; did you mean 'date'"
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


def test_paths_are_beside_the_file_or_in_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(VALID))
    config = load_config(path)
    assert config.onnx_model == tmp_path / "m.onnx"
    assert config.calibration_parameters.cal_data_dir == (Path("cal"),)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, None),
        ({"calibration__max_percentile": 0.99}, None),
        (
            {"calibration__max_percentile": 0.99, "calibration__calibration_type": "kl"},
            "max_percentile has no effect, calibration_type is kl",
        ),
        (
            {"calibration__max_percentile": 0.99, "calibration__optimization": "mse_thresholds"},
            "max_percentile has no effect, mse_thresholds takes the place of the method",
        ),
        (
            {"calibration__calibration_type": "skip", "calibration__optimization": "asymmetric"},
            "asymmetric has no effect, calibration_type is skip",
        ),
        (
            {"calibration__calibration_type": "load", "calibration__per_channel": True},
            "per_channel has no effect, calibration_type is load",
        ),
        ({"calibration__calibration_type": "skip"}, "cal_data_dir has no effect, calibration_type is skip"),
        ({"calibration__calibration_type": "load", "calibration__optimization": "integer_bias_correction"}, None),
        (
            {"calibration__calibration_type": "skip", "calibration__optimization": "integer_bias_correction"},
            "integer_bias_correction has no effect, calibration_type is skip",
        ),
        (
            {
                "calibration__calibration_type": "load",
                "calibration__optimization": "integer_bias_correction",
                "calibration__cal_data_dir": ...,
                "calibration__cal_data_type": ...,
            },
            "integer_bias_correction has no effect, calibration_type is load",
        ),
        ({"calibration__run_on_cpu": "n"}, "run_on_cpu is the older form of node_info"),
        ({"model__march": "bernoulli2", "calibration__run_on_cpu": "n"}, None),
    ],
)
def test_remarks(tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], text: str | None) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(changed(**changes)))
    load_config(path)
    assert (text or "") in caplog.text
    assert bool(caplog.text) == (text is not None)


def test_a_model_must_be_given() -> None:
    with pytest.raises(ConfigError, match="can not find onnx_model in config yaml"):
        _ = parse_config(changed(model__onnx_model=...)).onnx_model


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "\x00"])
def test_files_that_are_no_configuration(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"x\.yaml"):
        load_config(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "absent.yaml")


def test_batches_of_several_inputs_are_of_one_dialect() -> None:
    content = changed(calibration__cal_data_dir="a;b", calibration__cal_data_type="uint8; float32")
    content["input_parameters"] = {**TWO_INPUTS, "input_batch": 4}
    with pytest.raises(ConfigError, match="input_batch 4 needs a model with a single input, given are 2"):
        parse_config(content)
    assert parse_config(content, batch_of_several_inputs=True).input_parameters.input_batch == 4
    content["input_parameters"]["input_shape"] = "1x3x32x32; 2x8"
    with pytest.raises(ConfigError, match="first dimension is 1, given is 2x8"):
        parse_config(content, batch_of_several_inputs=True)


@pytest.mark.reference
def test_the_originals_files_are_accepted(reference_dir: Path) -> None:
    files = sorted((reference_dir / "golden" / "conversions").glob("*.yaml"))
    assert files
    for path in files:
        assert load_config(path).onnx_model.is_file()


def test_a_spec_has_the_values_of_its_norm_type() -> None:
    with pytest.raises(ConfigError, match="input 'x': norm_type 'data_mean' needs mean"):
        InputSpec(name="x", type_train="rgb", type_rt="rgb", norm_type="data_mean")
    with pytest.raises(ConfigError, match="input 'x': norm_type 'no_preprocess' takes no scale"):
        InputSpec(name="x", type_train="rgb", type_rt="rgb", scale=(0.5,))
