"""Both forms of recorded cases, and damaged ones: each is a row with its reason, never the end of the run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from engine.conformance.cases import find_cases, printed_name
from engine.conformance.conversion import Ending
from engine.conformance.run import MeasurePlan, measure_all
from engine.errors import ConfigError
from engine.toolchain.command import CUT_OFF

BUNDLED = Path(__file__).parents[2] / "golden" / "cases" / "min_fc_bayes-e_max_rgb"


@pytest.fixture
def reduced(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BUNDLED, tmp_path / BUNDLED.name))


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The bundled case in the recorded form, with calibration data in one archive and the network elsewhere."""
    folder = tmp_path / "cases" / "fc_a"
    folder.mkdir(parents=True)
    shutil.copy(BUNDLED / "net.onnx", tmp_path / "fc.onnx")
    for name in ("calibrated", "quantized"):
        shutil.copy(BUNDLED / f"expected_{name}.onnx", folder / f"{name}.onnx")
    content = yaml.safe_load((BUNDLED / "c.yaml").read_text())
    content["model_parameters"]["onnx_model"] = "../../fc.onnx"
    content["calibration_parameters"]["cal_data_dir"] = "./cal"
    (folder / "config.yaml").write_text(yaml.safe_dump(content))
    samples = [np.fromfile(path, np.float32).astype(np.uint8) for path in sorted((BUNDLED / "cal_0").iterdir())]
    np.savez(folder / "calibration.npz", data=np.stack(samples))
    with np.load(BUNDLED / "inputs.npz") as given, np.load(BUNDLED / "expected_outputs.npz") as outputs:
        fed = (given["0__image"].astype(np.int16) - 128).astype(np.int8)
        np.savez(folder / "io.npz", names=np.asarray(["y"]), in0=fed, out0_0=outputs["0__y"])
    nodes = json.loads((BUNDLED / "expected.json").read_text())["nodes"].values()
    result = {"net": "fc", "rc": 0, "nodes": list(nodes), "messages": [], "subgraphs_us_ddr": [{"latency": 3.5}]}
    (folder / "result.json").write_text(json.dumps(result))
    return folder


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("MatMul_36onnx::Reshape_68_reshape_transpose_Reshape_0", "..._36onnx::Reshape_68_reshape_transpose_Reshape_0"),
        ("n" * 50, "n" * 50),
        ("n" * 51, "..." + "n" * 47),
    ],
)
def test_long_names_are_compared_as_the_original_prints_them(name: str, printed: str) -> None:
    """The first: a row of ``vit_sep_b``."""
    assert printed_name(name) == printed == printed_name(printed)


@pytest.mark.nightly
def test_both_forms_say_the_same(recorded: Path) -> None:
    (case,) = find_cases(recorded)
    (other,) = find_cases(BUNDLED)
    assert (case.family, case.march, case.reduced, case.refusal) == ("fc", "bayes-e", False, "")
    assert (other.family, other.march, other.reduced) == ("min_fc", "bayes-e", True)
    assert case.devices == other.devices
    assert case.latencies_us == (3.5,)
    ((first, *_), (second, *_)) = case.samples(), other.samples()
    np.testing.assert_array_equal(first.inputs[""], second.inputs["image"])
    np.testing.assert_array_equal(first.outputs["y"], second.outputs["y"])
    rows = measure_all([case, other], MeasurePlan(1))
    same = {"outputs", "operators", "thresholds", "integers", "simulator", "departure"}
    assert rows[0].model_dump(include=same) == rows[1].model_dump(include=same)
    assert rows[0].simulator is True


DAMAGES: tuple[tuple[str, str | None, str], ...] = (
    ("expected.json", "{", "JSON"),
    ("expected.json", "[1]", "an object"),
    ("expected.json", '{"nodes": {"a": 1}}', "no result of a conversion"),
    ("c.yaml", None, "cannot be read"),
    ("c.yaml", "a: 1", "model_parameters"),
    ("net.onnx", None, "is not there"),
    ("expected_quantized.onnx", "no model", "expected_quantized.onnx"),
    ("inputs.npz", "no archive", "no archive"),
)
"""Files of a case, what they hold instead (None: they are not there), and what is said."""


@pytest.mark.nightly
def test_damaged_cases_are_rows(tmp_path: Path) -> None:
    for number, (file, content, _) in enumerate(DAMAGES):
        folder = Path(shutil.copytree(BUNDLED, tmp_path / f"damaged_{number}"))
        if content is None:
            (folder / file).unlink()
        else:
            (folder / file).write_text(content, encoding="utf-8")
    whole = Path(shutil.copytree(BUNDLED, tmp_path / "whole"))
    rows = {row.case: row for row in measure_all(find_cases(tmp_path), MeasurePlan(1))}
    for number, (*_, message) in enumerate(DAMAGES):
        row = rows[f"damaged_{number}"]
        assert row.outcome is Ending.UNREAD, row
        assert message in row.message
        assert row.converts is None
    assert rows[whole.name].outcome is Ending.CONVERTED


@pytest.mark.nightly
def test_python_files_that_a_case_names_are_not_run(reduced: Path, tmp_path: Path) -> None:
    content = yaml.safe_load((reduced / "c.yaml").read_text())
    (reduced / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    content["custom_op"] = {"op_register_files": "evil.py", "custom_op_dir": str(reduced)}
    (reduced / "c.yaml").write_text(yaml.safe_dump(content))
    (row,) = measure_all(find_cases(reduced), MeasurePlan(1))
    assert row.outcome is Ending.CONVERTED
    assert not (tmp_path / "ran").exists()


def test_a_case_that_takes_too_long_is_a_row(reduced: Path) -> None:
    (row,) = measure_all(find_cases(reduced), MeasurePlan(1, time_limit=0.05))
    assert row.outcome is Ending.CRASHED
    assert "longer than 0.05 s" in row.message


def test_cut_off_conversions_are_no_refusals(recorded: Path) -> None:
    path = recorded / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rc": CUT_OFF, "messages": ["ERROR something"]}))
    (case,) = find_cases(recorded)
    assert case.refusal == ""
    assert case.latencies_us == ()  # of some of its subgraphs


@pytest.mark.parametrize("make", [False, True])
def test_no_cases(tmp_path: Path, make: bool) -> None:
    folder = tmp_path / "none"
    if make:
        folder.mkdir()
    with pytest.raises(ConfigError, match="none"):
        find_cases(folder)
