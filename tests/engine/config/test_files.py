"""YAML files of any content are plain values or a ConfigError, in bounded time and memory."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.config.files import load_config, load_yaml, parse_config, read_yaml
from engine.errors import ConfigError
from tests.engine.config.contents import VALID, changed


def _laughs(levels: int) -> str:
    """A list of ten, and lists of ten times the one before it."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    return "\n".join([*lines, *(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels))])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_laughs(9), "more than 1048576 values"),
        ("a: &a [*a]", "more than 1048576 values"),
        ("a: &a {b: *a}", "more than 1048576 values"),
        ("[" * 3000, "more than 50 levels"),
        ("a: " + "{b: " * 3000, "more than 50 levels"),
        ("{" * 3000, "more than 50 levels"),
        ("? " * 3000, "more than 50 levels"),
        ("- " * 3000, "more than 50 levels"),
        ("a: 2001-99-99", "not valid YAML"),
        ("a: !!timestamp x", "not valid YAML"),
        ("a: !!bool x", "not valid YAML"),
        ("a: !!int x", "not valid YAML"),
        ("a: !!python/object:os.system x", "not valid YAML"),
        ("? [a]\n: b", "not valid YAML"),
        ("a: [", "not valid YAML"),
        ("node_info: {a: {'ON': CPU}, a: {'ON': BPU}}", "key 'a' is given twice"),
        ("a: 1\nb: 2\na: 3", "key 'a' is given twice"),
        ("a: {b: 1, 'b': 1}", "key 'b' is given twice"),
        ("#" * (1 << 23), "has more than 4194304 bytes of a YAML file"),
        ("a: '\x00'", "not valid YAML"),
        ("a:\n\tb: 1", "not valid YAML.* indent with blanks, not with tabs"),
    ],
)
def test_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    start = time.process_time()
    with pytest.raises(ConfigError, match=message) as caught:
        load_yaml(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert time.process_time() - start < 5


def test_files_as_windows_writes_them(tmp_path: Path) -> None:
    """With a mark of the byte order and its line ends; not in UTF-16, as its shells redirect into files."""
    path = tmp_path / "c.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: c:\\models\\net.onnx\r\n")
    assert load_yaml(path) == {"a": 1, "b": "c:\\models\\net.onnx"}
    path.write_text("a: 1", encoding="utf-16")
    with pytest.raises(ConfigError, match=r"c\.yaml: cannot be read: .*; save it as UTF-8"):
        load_yaml(path)


def test_aliases_are_written_out(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(_laughs(3))
    assert load_yaml(path) == {"a0": ["x"] * 10, "a1": [["x"] * 10] * 10, "a2": [[["x"] * 10] * 10] * 10}
    with pytest.raises(ConfigError, match="cannot be read"):
        load_yaml(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"model": ...}, "Missing key: 'model_parameters'"),
        ({"model__march": ...}, "Key 'model_parameters' error: Missing key: 'march'"),
        (
            {"model__march": "nash-x"},
            "User input march invalid: 'nash-x' . It should in list ['bernoulli2', 'bayes', 'bayes-e', 'nash-e', ",
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
            {"calibration__optimization": "set_Softmax_input_int8; set_Softmax_input_int16"},
            "set_Softmax_input_int8 and set_Softmax_input_int16 exclude each other",
        ),
        (
            {"calibration__calibration_type": "load", "calibration__optimization": "cross_layer_equalization"},
            "cross_layer_equalization scales the tensors whose thresholds calibration_type load takes",
        ),
        ({"calibration__per_channel": 1}, "calibration_parameters.per_channel: 1: expected True or False"),
        ({"input__input_type_rt": "gray"}, "not supported transform to input_type_rt 'gray' for now."),
        ({"input__input_type_rt": "rgba"}, "'rgba' should in list ["),
        ({"input__input_type_train": "nv12"}, "not supported transform to input_type_rt 'nv12'"),
        ({"input__input_shape": "1x3xAx32"}, "'1x3xAx32' is not a shape"),
        ({"input__input_shape": "0x3x32x32"}, "'0x3x32x32' is not a shape"),
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
        ({"compiler__core_num": 2}, "march bayes-e has only one core per frame"),
        ({"compiler__max_time_per_fc": 10}, "max_time_per_fc 10 must be 0 or 1000..4294967295"),
        ({"compiler__input_source": {"data": "disk"}}, "'disk' should in list ['ddr', 'pyramid', 'resizer']"),
        (
            {"model__node_info": {"n": {"ON": "GPU"}}},
            "model_parameters.node_info.n.ON: 'GPU' should in list ['BPU', 'CPU']",
        ),
        ({"model__node_info": {"n": {"ON": ["BPU"]}}}, r"model_parameters.node_info.n.ON: ['BPU'] should in list"),
        (
            {"model__node_info": {"n": {True: "BPU"}}},
            "model_parameters.node_info.n: the key True is no text: YAML reads ON, OFF, YES, NO and numbers",
        ),
        ({"model__node_info": {"n": 3}}, "model_parameters.node_info.n: 3"),
        ({"model__node_info": {"n": {"InputType": {"a": 1}}}}, "model_parameters.node_info.n.InputType: {'a': 1}"),
        ({"model__node_info": [{"n": {"ON": "BPU"}}]}, "model_parameters.node_info: [{'n'"),
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


def test_marches_of_the_s100_are_none_of_hb_mapper(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(changed(model__march="nash-e")))
    expected = "User input march invalid: 'nash-e' . It should in list ['bernoulli2', 'bayes', 'bayes-e']; hb_compile"
    with pytest.raises(ConfigError, match=re.escape(expected)):
        load_config(path, newer_dialect=False)


def test_all_errors_are_listed() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(changed(model__march="x", compiler__optimize_level="O9"))
    assert len(str(caught.value).splitlines()) == 2


def test_unknown_group_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'compiler_parameters'"):
        parse_config({**VALID, "compile_parameters": {}})


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
            "max_percentile has no effect, mse_thresholds replaces the method",
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
        ({"calibration__bias_correction_order": "t.onnx", "calibration__optimization": "bias_correction"}, None),
        (
            {"calibration__bias_correction_order": "t.onnx"},
            "bias_correction_order has no effect without bias_correction",
        ),
        (
            {
                "calibration__bias_correction_order": "t.onnx",
                "calibration__optimization": "bias_correction",
                "model__compatibility": "clean",
            },
            "bias_correction_order has no effect where compatibility is clean: all are corrected at once",
        ),
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
        ({"model__march": "bernoulli2", "model__node_info": {"n": {"ON": "CPU"}}}, "node_info is not documented for"),
        ({"compiler__jobs": 4}, "jobs has no effect: the compiler uses one process"),
        ({"compiler__input_source": {"data": "ddr"}}, "input_source has no effect on results or estimates"),
    ],
)
def test_remarks(tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], text: str | None) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(changed(**changes)))
    load_config(path)
    assert (text or "") in caplog.text
    assert bool(caplog.text) == (text is not None)


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "\x00"])
def test_files_that_are_no_configuration(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"x\.yaml"):
        load_config(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "absent.yaml")


@pytest.mark.reference
def test_the_originals_files_are_accepted(reference_dir: Path) -> None:
    files = sorted((reference_dir / "golden" / "conversions").glob("*.yaml"))
    assert files
    for path in files:
        assert load_config(path).onnx_model.is_file()


@pytest.mark.nightly
def test_merge_keys_that_copy_too_much_are_refused(tmp_path: Path) -> None:
    """600 mappings that take over 2,000 keys each: 1.2 million copies, from a file of 30 KB."""
    keys = ", ".join(f"k{i}: 1" for i in range(2000))
    (tmp_path / "a.yaml").write_text("\n".join([f"a: &a {{{keys}}}", *(f"b{i}: {{<<: *a}}" for i in range(600))]))
    with pytest.raises(ConfigError, match="its merge keys copy more than 1048576 values of a YAML file"):
        load_yaml(tmp_path / "a.yaml")


def test_merge_keys_that_multiply_never_do(tmp_path: Path) -> None:
    """Nine merges of nine merges and so on: 43 million copies of one pair, of which PyYAML 6.0.4 keeps one."""
    levels = ["a0: &a0 {k: 1}"]
    levels += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 9)]
    (tmp_path / "a.yaml").write_text("\n".join(levels))
    try:
        content = load_yaml(tmp_path / "a.yaml")
    except ConfigError as error:
        content = str(error)
    kept = {f"a{i}": {"k": 1} for i in range(9)}
    assert content == kept or "merge keys copy more than 1048576 values" in str(content)


def test_merge_keys_merge(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {<<: *a, x: 3}\nd: {<<: [*a, *b]}\ne: &e {<<: *e, k: 1}\n"
    )
    assert load_yaml(tmp_path / "a.yaml") == {
        "a": {"x": 1, "y": 1},
        "b": {"y": 2, "z": 2},
        "c": {"x": 3, "y": 1},
        "d": {"x": 1, "y": 1, "z": 2},
        "e": {"k": 1},
    }


def test_the_last_of_two_node_infos_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Configurations that were made from the vendor's own give it twice; the original takes the last one."""
    path = tmp_path / "net.yaml"
    path.write_text("model_parameters:\n  node_info: {a: {'ON': CPU}}\n  node_info: {b: {'ON': BPU}}\n")
    assert read_yaml(path) == {"model_parameters": {"node_info": {"b": {"ON": "BPU"}}}}
    assert "line 3: key 'node_info' is given twice" in caplog.text
