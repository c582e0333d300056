"""The parameter groups, and the rules that hold between parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.config import InputSpec, parse_config
from engine.config.parameters import Config, NodeInfo
from engine.errors import ConfigError
from engine.terms import CalibrationType, DataType, Device, InputType, Layout, NormType
from tests.engine.config.contents import VALID, changed


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


def test_node_info() -> None:
    info = parse_config(
        changed(
            model__node_info={"n": {"ON": "BPU", "InputType": "int8", "InputType1": "int16", "OutputType": "int16"}}
        )
    ).model_parameters.node_info["n"]
    assert (info.on, info.input_type, info.output_type) == (Device.BPU, DataType.INT8, DataType.INT16)
    assert info.input_types == {1: DataType.INT16}
    assert info.uses_int16


def test_a_model_must_be_given() -> None:
    with pytest.raises(ConfigError, match="can not find onnx_model in config yaml"):
        _ = parse_config(changed(model__onnx_model=...)).onnx_model


def model_parameters(**files: str) -> Config:
    return parse_config(changed(model__onnx_model=..., **{f"model__{key}": name for key, name in files.items()}))


def test_the_float_model_is_that_of_caffe_where_any_file_of_one_is_given() -> None:
    assert parse_config(VALID).float_model == Path("m.onnx")
    assert model_parameters(caffe_model="m.caffemodel", prototxt="m.prototxt").float_model == Path("m.caffemodel")
    for given, missing in (("caffe_model", "prototxt"), ("prototxt", "caffe_model")):
        with pytest.raises(ConfigError, match=f"Missing key: '{missing}'"):
            _ = model_parameters(**{given: "m"}).float_model
    with pytest.raises(ConfigError, match="Missing keys: 'caffe_model', 'prototxt'"):
        _ = model_parameters().caffe_model


@pytest.mark.parametrize("key", ["caffe_model", "prototxt"])
def test_one_model_is_given(key: str) -> None:
    with pytest.raises(ConfigError, match="give either onnx_model, or prototxt and caffe_model, not both"):
        parse_config(changed(**{f"model__{key}": "m"}))


def test_the_same_for_another_model() -> None:
    caffe = model_parameters(caffe_model="m.caffemodel", prototxt="m.prototxt")
    other = caffe.of_model(Path("n.caffemodel")).model_parameters
    assert (other.caffe_model, other.prototxt, other.onnx_model) == (Path("n.caffemodel"), Path("m.prototxt"), None)
    onnx = caffe.of_model(Path("n.onnx")).model_parameters
    assert (onnx.caffe_model, onnx.prototxt, onnx.onnx_model) == (None, None, Path("n.onnx"))


def test_node_info_is_written_as_it_was_read() -> None:
    written = {"ON": "BPU", "InputType": "int8", "InputType1": "int16", "OutputType": "int16"}
    assert NodeInfo.model_validate(written).as_written() == written
    assert not NodeInfo.model_validate({"InputType0": "int8"}).uses_int16
    assert all(NodeInfo.model_validate({key: "int16"}).uses_int16 for key in ("InputType", "InputType3", "OutputType"))


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({"model__output_model_file_prefix": "a" * 160}, True),
        ({"model__output_model_file_prefix": "a" * 161}, False),
        ({"compiler__max_time_per_fc": 1000}, True),
        ({"compiler__max_time_per_fc": 999}, False),
        ({"compiler__max_time_per_fc": 1 << 32}, False),
        ({"compiler__core_num": 2, "model__march": "bernoulli2"}, True),
        ({"compiler__core_num": 3, "model__march": "bernoulli2"}, False),
        ({"compiler__jobs": 0}, False),
        ({"calibration__optimization": "set_Conv_input_int16; run_fast"}, True),
        ({"calibration__optimization": "set_Conv_int16"}, False),
        ({"calibration__optimization": "set_Conv_input_int16", "model__march": "bernoulli2"}, False),
        ({"model__set_node_data_type": {"n": "int16"}, "model__march": "bernoulli2"}, False),
        ({"model__set_node_data_type": {"n": "int8"}, "model__march": "bernoulli2"}, True),
        ({"calibration__cal_data_dir": "a;b", "calibration__calibration_type": "load"}, True),
        ({"calibration__cal_data_type": "uint8;uint8"}, False),
        ({"custom_op": {"custom_op_method": "register", "custom_op_dir": "d", "op_register_files": "a.py"}}, True),
        ({"custom_op": {"custom_op_method": "register", "op_register_files": "a.py"}}, False),
        ({"custom_op": {"custom_op_method": "register", "custom_op_dir": "d"}}, False),
        ({"custom_op": {"custom_op_method": "auto"}}, False),
    ],
)
def test_limits(changes: dict[str, Any], fits: bool) -> None:
    content = changed(**{key: value for key, value in changes.items() if "__" in key})
    content |= {key: value for key, value in changes.items() if "__" not in key}
    if fits:
        assert parse_config(content).march
    else:
        with pytest.raises(ConfigError, match="config: "):
            parse_config(content)


def test_a_custom_operator_says_what_is_missing() -> None:
    for given, missing in (("op_register_files", "custom_op_dir"), ("custom_op_dir", "op_register_files")):
        with pytest.raises(ConfigError, match=f"{given} needs {missing}, which is missing"):
            parse_config({**VALID, "custom_op": {given: "a"}})
