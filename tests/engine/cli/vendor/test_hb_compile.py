"""``hb_compile``: its dialect of configuration, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from typer.testing import CliRunner, Result

from engine.cli.vendor import compile_dialect
from engine.cli.vendor.hb_compile import app
from engine.cli.vendor.hb_mapper import join_pairs
from engine.errors import ConfigError
from engine.terms import CalibrationType, DataType, Layout, March, NormType
from tests.engine.frontend.networks import convolution

CONFIG: dict[str, dict[str, Any]] = {
    "model_parameters": {
        "onnx_model": "m.onnx",
        "march": "nash-e",
        "output_model_file_prefix": "m",
        "working_dir": "out",
    },
    "input_parameters": {
        "input_name": "x",
        "input_type_train": "rgb",
        "input_type_rt": "nv12",
        "mean_value": "123.675 116.28 103.53",
        "std_value": "58.395 57.12 57.375",
    },
    "calibration_parameters": {"cal_data_dir": "data", "calibration_type": "max"},
    "compiler_parameters": {"optimize_level": "O2"},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model and calibration data, as the working directory."""
    onnx.save(convolution(), tmp_path / "m.onnx")
    (tmp_path / "data").mkdir()
    image = np.random.default_rng(0).integers(0, 256, (1, 3, 8, 8)).astype(np.float32)
    np.save(tmp_path / "data" / "0.npy", image)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path, **changes: dict[str, Any]) -> Path:
    """``c.yaml`` with keys of groups replaced; ``...`` removes them."""
    content = {group: {**values, **changes.get(group, {})} for group, values in CONFIG.items()}
    for group, values in content.items():
        content[group] = {key: value for key, value in values.items() if value is not ...}
    path = folder / "c.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, join_pairs(arguments))


def test_std_value_is_the_inverse_of_scale(folder: Path) -> None:
    config = compile_dialect.load_config(written(folder))
    (spec,) = config.input_specs(["x"])
    assert config.march is March.BAYES_E
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
    first, second = compile_dialect.load_config(path).input_specs(["a", "b"])
    assert (first.norm_type, first.scale, second.norm_type) == (NormType.SCALE, (0.5,), NormType.NONE)


def test_lists_may_be_yaml_lists_and_none_may_be_quoted(folder: Path) -> None:
    inputs = {
        "input_name": ["a", "b"],
        "input_type_train": ["rgb", "featuremap"],
        "input_type_rt": ["nv12", "featuremap"],
        "mean_value": ...,
        "std_value": "2; 'None'",
    }
    config = compile_dialect.load_config(
        written(folder, input_parameters=inputs, calibration_parameters={"cal_data_dir": "data;data"})
    )
    first, second = config.input_specs(["a", "b"])
    assert (first.scale, second.scale, second.norm_type) == ((0.5,), (), NormType.NONE)


def test_node_config_and_node_info_are_joined(folder: Path) -> None:
    wanted = {"node_config": {"Conv_0": {"qtype": "int16"}}}
    path = written(
        folder,
        model_parameters={"node_info": {"Conv_0": {"ON": "BPU"}}},
        calibration_parameters={"quant_config": wanted},
    )
    info = compile_dialect.load_config(path).model_parameters.node_info["Conv_0"]
    assert (info.on, info.input_type) == ("BPU", DataType.INT16)
    path = written(
        folder,
        model_parameters={"node_info": {"Conv_0": {"InputType": "int8"}}},
        calibration_parameters={"quant_config": wanted},
    )
    with pytest.raises(ConfigError, match=r"node_info.Conv_0: .* but quant_config says"):
        compile_dialect.load_config(path)


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
        config = compile_dialect.load_config(path)
        calibration = config.calibration_parameters
        assert (calibration.calibration_type, calibration.max_percentile) == (CalibrationType.MAX, 0.999)
        assert set(calibration.optimization) == {
            "asymmetric",
            "bias_correction",
            "set_model_output_int8",
            "set_Conv_input_int16",
        }
        assert config.model_parameters.node_info["Conv_0"].input_type is DataType.INT16


@pytest.mark.parametrize(
    ("group", "changes", "message"),
    [
        ("model_parameters", {"march": "nash-x"}, "User input march invalid: 'nash-x' . It should in list ['nash-e', "),
        ("compiler_parameters", {"optimize_level": "O3"}, "'O3' should in list ['O0', 'O1', 'O2']"),
        ("input_parameters", {"input_layout_rt": "NHWC"}, "the layout of the model is kept"),
        ("input_parameters", {"std_value": "0"}, "standard deviations must be positive"),
        ("input_parameters", {"std_value": "a"}, "'a' is neither None nor numbers"),
        ("input_parameters", {"std_value": "1;2"}, "std_value num 2 is not equal to input num 1"),
        ("input_parameters", {"scale_value": "1"}, "give either scale_value or std_value"),
        ("input_parameters", {"std_valu": "1"}, "Wrong key 'std_valu' in "),
        ("calibration_parameters", {"quant_config": "absent.json"}, "no readable JSON file"),
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
        compile_dialect.load_config(written(folder, **{group: changes}))
    assert message in str(caught.value)


def test_options_may_be_a_list_beside_quant_config(folder: Path) -> None:
    given = {
        "optimization": ["asymmetric", "run_fast"],
        "quant_config": {"model_config": {"model_output_type": "int8"}},
    }
    config = compile_dialect.load_config(written(folder, calibration_parameters=given))
    assert config.calibration_parameters.optimization == ("asymmetric", "run_fast", "set_model_output_int8")


def test_what_has_no_effect_is_remarked(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    compile_dialect.load_config(
        written(folder, calibration_parameters={"calibration_type": "kl", "max_percentile": 0.9})
    )
    assert "c.yaml: max_percentile has no effect, calibration_type is kl" in caplog.text


def test_calibration_data_are_npy(folder: Path) -> None:
    (folder / "data" / "1.bin").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"1\.bin: calibration data must be \.npy files"):
        compile_dialect.load_config(written(folder))


def test_the_command_converts(folder: Path) -> None:
    result = run("--config", str(written(folder)))
    assert result.exit_code == 0, result.output
    assert (folder / "out" / "m.bin").is_file()
    assert "by the rules of bayes-e" in (folder / "hb_compile.log").read_text()


def test_the_command_checks(folder: Path) -> None:
    result = run("--march", "nash-m", "--model", "m.onnx", "-i", "x", "1x3x8x8")
    assert result.exit_code == 0, result.output
    assert "HzSQuantizedConv" in result.output
    assert not (folder / "model_output").exists()


def test_the_command_converts_fast(folder: Path) -> None:
    result = run("--fast-perf", "--march", "nash-e", "--model", "m.onnx")
    assert result.exit_code == 0, result.output
    assert (folder / "model_output" / "m.bin").is_file()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--model", "m.onnx"], 2),
        (["--config", "absent.yaml"], 2),
        (["--config", "m.onnx", "--march", "nash-e"], 2),
        (["--config", "m.onnx"], 255),
        (["--model", "m.onnx", "--march", "nash-x"], 255),
    ],
)
def test_wrong_arguments(folder: Path, arguments: list[str], code: int) -> None:
    assert run(*arguments).exit_code == code
