"""The dialect of ``hb_compile``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

from engine.chips import March
from engine.config import load_config
from engine.config.dialect import OPTIMIZE_LEVELS
from engine.convert import convert
from engine.errors import ConfigError
from engine.terms import CalibrationType, DataType, Layout, NormType
from tests.engine.config.s100 import make_folder, written
from tests.engine.frontend.networks import convolution


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model and calibration data, as the working directory."""
    monkeypatch.chdir(make_folder(tmp_path))
    return tmp_path


def test_std_value_is_the_inverse_of_scale(folder: Path) -> None:
    config = load_config(written(folder))
    (spec,) = config.input_specs(["x"])
    assert config.march is March("nash-e")
    assert spec.norm_type is NormType.MEAN_AND_SCALE
    assert spec.scale == pytest.approx((1 / 58.395, 1 / 57.12, 1 / 57.375), rel=1e-15)
    assert (spec.layout_train, spec.layout_rt) == (Layout.NCHW, None)


def test_several_inputs(folder: Path) -> None:
    inputs = {
        "input_name": "a;b",
        "input_type_train": "rgb;featuremap",
        "input_type_rt": "rgb;featuremap",
        "mean_value": "None;None",
        "std_value": "2;None",
    }
    path = written(folder, input_parameters=inputs, calibration_parameters={"cal_data_dir": "data;data"})
    first, second = load_config(path).input_specs(["a", "b"])
    assert (first.norm_type, first.scale, second.norm_type) == (NormType.SCALE, (0.5,), NormType.NONE)


def test_lists_may_be_yaml_lists_and_none_may_be_quoted(folder: Path) -> None:
    inputs = {
        "input_name": ["a", "b"],
        "input_type_train": ["rgb", "featuremap"],
        "input_type_rt": ["nv12", "featuremap"],
        "mean_value": ...,
        "std_value": "2; 'None'",
    }
    config = load_config(written(folder, input_parameters=inputs, calibration_parameters={"cal_data_dir": "data;data"}))
    first, second = config.input_specs(["a", "b"])
    assert (first.scale, second.scale, second.norm_type) == ((0.5,), (), NormType.NONE)


def test_node_config_and_node_info_are_joined(folder: Path) -> None:
    wanted = {"node_config": {"Conv_0": {"qtype": "int16"}}}
    path = written(
        folder,
        model_parameters={"node_info": {"Conv_0": {"ON": "BPU"}}},
        calibration_parameters={"quant_config": wanted},
    )
    info = load_config(path).model_parameters.node_info["Conv_0"]
    assert (info.on, info.input_type) == ("BPU", DataType.INT16)
    path = written(
        folder,
        model_parameters={"node_info": {"Conv_0": {"InputType": "int8"}}},
        calibration_parameters={"quant_config": wanted},
    )
    with pytest.raises(ConfigError, match=r"node_info.Conv_0: .* but quant_config says"):
        load_config(path)


def test_quant_config(folder: Path) -> None:
    asked = {
        "model_config": {
            "activation": {"calibration_type": "max", "max_percentile": 0.999, "asymmetric": True},
            "weight": {"bias_correction": {"num_sample": 1}},
            "model_output_type": "int8",
        },
        "op_config": {"Conv": {"qtype": "int16"}, "Add": {"qtype": "int8"}},
        "node_config": {"Conv_0": {"qtype": "int16"}},
    }
    (folder / "q.json").write_text(json.dumps(asked))
    for given in (asked, "q.json"):
        path = written(folder, calibration_parameters={"quant_config": given, "calibration_type": ...})
        config = load_config(path)
        calibration = config.calibration_parameters
        assert (calibration.calibration_type, calibration.max_percentile) == (CalibrationType.MAX, 0.999)
        assert set(calibration.optimization) == {
            "asymmetric",
            "bias_correction",
            "set_model_output_int8",
            "set_Conv_input_int16",
            "run_Conv_on_bpu",
            "run_Add_on_bpu",
        }
        info = config.model_parameters.node_info["Conv_0"]
        assert (info.on, info.input_type) == ("BPU", DataType.INT16)


def test_all_layers_are_dumped_by_the_name_of_this_dialect(folder: Path) -> None:
    model = {"debug_mode": "dump_calibration_data;dump_all_layers_output"}
    parameters = load_config(written(folder, model_parameters=model)).model_parameters
    assert (parameters.layer_out_dump, parameters.debug_mode) == (True, "dump_calibration_data")
    model = {"debug_mode": "dump_all_layers_output"}
    parameters = load_config(written(folder, model_parameters=model)).model_parameters
    assert (parameters.layer_out_dump, parameters.debug_mode) == (True, None)


def test_cal_data_type_is_said_to_have_no_effect(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    load_config(written(folder, calibration_parameters={"cal_data_type": "float32"}))
    assert "cal_data_type has no effect: .npy files contain their type" in caplog.text


def test_an_operator_at_the_end_runs_on_the_bpu_where_quant_config_names_it(folder: Path) -> None:
    model = convolution()
    model.graph.node.append(helper.make_node("Softmax", ["y"], ["p"], "softmax", axis=3))
    model.graph.output[0].name = "p"
    onnx.save(model, folder / "m.onnx")
    for asked, devices in (
        ({}, {"CPU"}),
        ({"op_config": {"Softmax": {"qtype": "int8"}}}, {"BPU"}),
        ({"node_config": {"softmax": {"qtype": "int8"}}}, {"BPU"}),
    ):
        config = load_config(written(folder, calibration_parameters={"quant_config": asked}))
        assert {row.on for row in convert(config).nodes if row.node.startswith("softmax")} == devices


@pytest.mark.parametrize(
    ("group", "changes", "message"),
    [
        (
            "model_parameters",
            {"march": "nash-x"},
            "User input march invalid: 'nash-x' . It should in list ['bernoulli2', ",
        ),
        ("compiler_parameters", {"optimize_level": "O3"}, "'O3' should in list ['O0', 'O1', 'O2']"),
        ("input_parameters", {"input_layout_rt": "NHWC"}, "inputs keep the layout of the model"),
        ("input_parameters", {"std_value": "0"}, "standard deviations must be positive"),
        ("input_parameters", {"std_value": "a"}, "'a' is neither None nor numbers"),
        ("input_parameters", {"std_value": "1;2"}, "std_value num 2 is not equal to input num 1"),
        ("input_parameters", {"scale_value": "1"}, "give either scale_value or std_value"),
        ("input_parameters", {"std_valu": "1"}, "Wrong key 'std_valu' in "),
        ("calibration_parameters", {"quant_config": "absent.json"}, "no readable JSON file"),
        ("calibration_parameters", {"quant_config": "a" * 5000}, "no readable JSON file: [Errno 36]"),
        ("calibration_parameters", {"quant_config": {"layer_config": {}}}, "Wrong key 'layer_config' in "),
        ("calibration_parameters", {"quant_config": {"op_config": {"Conv": {"qtype": "int4"}}}}, "'int4' should in"),
        (
            "calibration_parameters",
            {"quant_config": {"model_config": {"activation": {"calibration_type": "kl"}}}},
            "calibration_parameters.calibration_type: 'max', but quant_config says 'kl'",
        ),
    ],
)
def test_wrong_configuration(folder: Path, group: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=r"c\.yaml: ") as caught:
        load_config(written(folder, **{group: changes}), newer_dialect=True)
    assert message in str(caught.value)


@pytest.mark.parametrize("level", OPTIMIZE_LEVELS)
def test_every_level_of_the_dialect_is_taken(folder: Path, level: str) -> None:
    config = load_config(written(folder, compiler_parameters={"optimize_level": level}))
    assert config.compiler_parameters.optimize_level == level


def test_options_may_be_a_list_beside_quant_config(folder: Path) -> None:
    given = {
        "optimization": ["asymmetric", "run_fast"],
        "quant_config": {"model_config": {"model_output_type": "int8"}},
    }
    config = load_config(written(folder, calibration_parameters=given))
    assert config.calibration_parameters.optimization == ("asymmetric", "run_fast", "set_model_output_int8")


def test_what_has_no_effect_is_remarked(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    load_config(written(folder, calibration_parameters={"calibration_type": "kl", "max_percentile": 0.9}))
    assert "c.yaml: max_percentile has no effect, calibration_type is kl" in caplog.text


def test_calibration_data_are_npy(folder: Path) -> None:
    (folder / "data" / "1.bin").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"1\.bin: calibration data must be \.npy files"):
        load_config(written(folder))


@pytest.mark.parametrize(
    ("inputs", "norm", "scale", "mean"),
    [
        ({"mean_value": ..., "std_value": ...}, "no_preprocess", (), ()),
        ({"mean_value": "1 2 3", "std_value": ...}, "data_mean", (), (1.0, 2.0, 3.0)),
        ({"mean_value": ..., "std_value": "2 4 8"}, "data_scale", (0.5, 0.25, 0.125), ()),
        ({"mean_value": ..., "std_value": ..., "scale_value": "0.5"}, "data_scale", (0.5,), ()),
        ({"mean_value": "1", "std_value": 4}, "data_mean_and_scale", (0.25,), (1.0,)),
    ],
)
def test_normalisation_follows_from_what_is_given(
    tmp_path: Path, inputs: dict[str, Any], norm: str, scale: tuple[float, ...], mean: tuple[float, ...]
) -> None:
    (spec,) = load_config(written(tmp_path, input_parameters=inputs)).input_specs(["x"])
    assert (spec.norm_type, spec.scale, spec.mean) == (norm, scale, mean)


@pytest.mark.parametrize(
    ("debug", "dumped", "kept"),
    [
        ("dump_all_layers_output", True, None),
        ("dump_calibration_data", False, "dump_calibration_data"),
        ("dump_all_layers_output;dump_calibration_data", True, "dump_calibration_data"),
    ],
)
def test_debug_modes(tmp_path: Path, debug: str, dumped: bool, kept: str | None) -> None:
    model = load_config(written(tmp_path, model_parameters={"debug_mode": debug})).model_parameters
    assert (model.layer_out_dump, model.debug_mode) == (dumped, kept)


def configured(folder: Path, config: object, **calibration: Any) -> Any:
    return load_config(written(folder, calibration_parameters={"quant_config": config, **calibration}))


def test_what_quant_config_asks_for(tmp_path: Path) -> None:
    content = {
        "model_config": {
            "activation": {"calibration_type": "max", "max_percentile": 0.99, "per_channel": True, "asymmetric": True},
            "weight": {"bias_correction": True},
            "model_output_type": "int16",
        },
        "op_config": {"Conv": {"qtype": "int16"}, "Add": {"qtype": "int8"}},
        "node_config": {"Conv_0": {"qtype": "int16"}},
    }
    (tmp_path / "q.json").write_text(json.dumps(content))
    for given in (content, "q.json"):
        config = configured(tmp_path, given)
        calibration = config.calibration_parameters
        assert set(calibration.optimization) == {
            "asymmetric",
            "bias_correction",
            "set_model_output_int16",
            "run_Conv_on_bpu",
            "set_Conv_input_int16",
            "run_Add_on_bpu",
        }
        assert (calibration.max_percentile, calibration.per_channel) == (0.99, True)
        info = config.model_parameters.node_info["Conv_0"]
        assert (info.on, info.input_type) == ("BPU", DataType.INT16)


@pytest.mark.parametrize(("kind", "expected"), [("int16", ("set_all_nodes_int16",)), ("int8", ())])
def test_the_type_of_all_nodes(tmp_path: Path, kind: str, expected: tuple[str, ...]) -> None:
    config = configured(tmp_path, {"model_config": {"all_node_type": kind}})
    assert config.calibration_parameters.optimization == expected


def test_options_given_beside_it_are_kept_and_named_once(tmp_path: Path) -> None:
    asked = {"model_config": {"activation": {"asymmetric": True}}}
    found = configured(tmp_path, asked, optimization="run_fast;asymmetric").calibration_parameters
    assert found.optimization == ("run_fast", "asymmetric")


def test_sections_of_bias_correction(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    weight = {"bias_correction": {"num_sample": 5}}
    found = configured(tmp_path, {"model_config": {"weight": weight}}).calibration_parameters
    assert found.optimization == ("bias_correction",)
    assert "num_sample 5 has no effect: biases are always corrected on the last sample" in caplog.text
    off = configured(tmp_path, {"model_config": {"weight": {"bias_correction": False}}}).calibration_parameters
    assert off.optimization == ()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_config": {"bias": {}}}, "quant_config.model_config: Wrong key 'bias'"),
        ({"model_config": {"activation": {"kind": 1}}}, "Wrong key 'kind'"),
        ({"model_config": {"activation": {"asymmetric": 1}}}, "expected true or false"),
        ({"model_config": {"model_output_type": "float"}}, r"'float' should in list \['int8', 'int16'\]"),
        ({"op_config": {"Conv": "int8"}}, "must be a mapping, found str"),
        ({"node_config": {"a": {"type": "int8"}}}, "Wrong key 'type'"),
    ],
)
def test_mistakes_in_quant_config(tmp_path: Path, config: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configured(tmp_path, config)
