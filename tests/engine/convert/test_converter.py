"""A conversion as users see it: phases, files, log lines, the parameters that a container keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.chips import March
from engine.compile import load_bin
from engine.convert.converter import MODELS, Phase, Workspace, convert, log_costly_rules, log_ends, parameters_as_text
from engine.convert.items import CALIBRATED, FOLDED, ORIGINAL
from engine.errors import ConfigError
from engine.ir import load_model, to_bytes
from engine.rulebook.book import RULES
from engine.rulebook.marks import note
from tests.engine.calibrate.models import residual
from tests.engine.convert.conftest import Converted
from tests.engine.convert.work import configured


def test_files_appear_for_every_model_and_the_container(converted: Converted) -> None:
    result = converted.result
    stages = ("original_float", "optimized_float", "calibrated", "quantized")
    assert tuple(item.name for item in MODELS) == stages
    expected = {stage: f"small_{stage}_model.onnx" for stage in stages}
    expected |= {"bin": "small.bin", "quant_info": "small_quant_info.json"}
    assert {kind: path.name for kind, path in result.files.items()} == expected
    for stage in stages:
        assert to_bytes(load_model(converted.folder / result.files[stage])) == to_bytes(result.models[stage])
    assert load_bin(converted.folder / result.files["bin"]).to_bytes() == result.compiled.to_bytes()


def test_phases_are_logged_and_timed_in_order(converted: Converted) -> None:
    starts = [line for line in converted.log if line.startswith("Start to ")]
    assert starts == [
        "Start to prepare the onnx model.",
        "Start to optimize the onnx model.",
        "Start to calibrate the model.",
        "Start to quantize the model.",
        "Start to compile the model with march bayes-e.",
        "Start to compare the calibrated and the quantized with the float model.",
    ]
    assert sum(line.startswith("End to ") for line in converted.log) == 6
    assert set(converted.result.timings) == set(Phase)


def test_the_result_holds_tables_of_data(converted: Converted) -> None:
    result = converted.result
    assert [row.name for row in result.outputs] == ["scores"]
    assert [row.name for row in result.integer_outputs] == ["scores"]
    assert result.performance.latency_us > 0
    assert result.refusals == ()


def test_a_container_keeps_the_parameters_of_its_conversion(converted: Converted) -> None:
    kept = converted.result.compiled.parameters
    assert kept["model_parameters"]["march"] == "bayes-e"
    assert kept["input_parameters"]["scale_value"] == "0.0078125"
    assert kept["model_parameters"]["prototxt"] == "None", "defaults are kept too"


def test_parameters_as_text(tmp_path: Path) -> None:
    text = parameters_as_text(
        configured(
            input__input_shape="1x3x4x5",
            input__input_name="x",
            model__node_info={"n": {"ON": "BPU"}},
            model__working_dir=str(tmp_path),
            calibration__run_on_cpu="a; b",
        )
    )
    assert text["input_parameters"]["input_shape"] == "1x3x4x5"
    assert text["calibration_parameters"]["run_on_cpu"] == "a;b"
    assert text["model_parameters"]["working_dir"] == str(tmp_path)
    assert json.loads(text["model_parameters"]["node_info"]).keys() == {"n"}
    assert "custom_op" not in text


def test_models_are_saved_at_the_end_of_their_phase_unless_it_fails(tmp_path: Path) -> None:
    work = Workspace(tmp_path, "net", saved=(CALIBRATED,), march=March("bayes-e"))
    work.made(CALIBRATED, residual())
    with pytest.raises(ConfigError), work.phase(Phase.PREPARE, "fail"):
        raise ConfigError("no")
    assert (work.files, work.timings) == ({}, {})
    with work.phase(Phase.CALIBRATE, "calibrate"):
        work.made(ORIGINAL, residual())
        work.made(FOLDED, residual())
    assert {kind: path.name for kind, path in work.files.items()} == {"calibrated": "net_calibrated_model.onnx"}
    assert set(work.models) == {"calibrated", "original_float"}, "what users do not see is not kept"


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    work = Workspace(None, "net", saved=(CALIBRATED,), march=March("bayes-e"))
    with work.phase(Phase.CALIBRATE, "calibrate"):
        work.made(CALIBRATED, residual())
        work.write(b"data", "bin", ".bin")
    assert (work.files, list(tmp_path.iterdir())) == ({}, [])


def test_options_that_exclude_each_other_are_refused_before_anything_is_read() -> None:
    config = configured(
        model__onnx_model="absent.onnx",
        calibration__calibration_type="mix",
        calibration__optimization="mse_thresholds",
    )
    with pytest.raises(ConfigError, match="mse_thresholds need calibration_type max or kl"):
        convert(config)


def test_the_log_names_inputs_and_outputs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "engine.convert"):
        log_ends(residual())
    assert caplog.messages == ["Input x (float32, shape [1, 3, 6, 5])", "Output y (float32, shape [1, 4])"]


@pytest.mark.parametrize(("count", "shown"), [(1, "conv0"), (3, "conv0, relu0, conv1"), (4, "conv0, relu0, conv1 …")])
def test_the_log_names_three_nodes_where_a_rule_costs_accuracy(
    count: int, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    rule = RULES["arithmetic.hard-sigmoid-slope"]
    model = residual()
    for node in list(model.graph)[:count]:
        note(node, rule.id)
    log_costly_rules(model)
    (line,) = caplog.messages
    assert line.startswith(f"rule {rule.id} on {count} nodes ({shown}): {rule.says}")
    assert line.endswith(f" With compatibility clean {rule.instead}.")
