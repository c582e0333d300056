"""Conversions of networks are read as the original left them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import ConfigError
from research.deployed import read_deployed, read_small
from tests.golden_cases import BUNDLED


def case(folder: Path, name: str, figures: list[dict[str, float]]) -> Path:
    target = folder / name
    target.mkdir(parents=True)
    setting = {"march": "bayes-e", "O": "O1", "cal": "max"}
    result = {"net": "res", "setting": setting, "subgraphs_us_ddr": figures, "nodes": []}
    (target / "result.json").write_text(json.dumps(result))
    (target / "quantized.onnx").write_bytes((BUNDLED / "conversions" / "res.quant.onnx").read_bytes())
    return target


def test_cases_with_figures_are_compiled(tmp_path: Path) -> None:
    case(tmp_path, "res_a", [{"latency": 12.5, "ddr": 1000}])
    case(tmp_path, "res_b", [])
    found, refused = read_deployed(tmp_path)
    assert refused == []
    assert [(network.name, network.latency_us, network.ddr_bytes, network.level) for network in found] == [
        ("res_a", 12.5, 1000, "O1")
    ]
    assert len(found[0].schedules) == 1
    assert not found[0].held_out


def test_what_was_cut_off_has_no_figures(tmp_path: Path) -> None:
    path = case(tmp_path, "res_a", [{"latency": 12.5, "ddr": 1000}]) / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rc": -9}))
    assert read_deployed(tmp_path) == ([], [])


def test_a_case_without_a_result_is_named(tmp_path: Path) -> None:
    (case(tmp_path, "res_a", []) / "result.json").write_text("{")
    with pytest.raises(ConfigError, match=r"result\.json"):
        read_deployed(tmp_path)


def test_images_that_run_as_nv12_are_read_as_such(tmp_path: Path) -> None:
    """The original's quantised files do not say what the run-time format of an input is."""
    found = {}
    for kind in ("nv12", "rgb"):
        target = case(tmp_path / kind, "rgb_a", [{"latency": 12.5, "ddr": 1000}])
        (target / "quantized.onnx").write_bytes((BUNDLED / "conversions" / "p_rgb.quant.onnx").read_bytes())
        result = json.loads((target / "result.json").read_text())
        result["setting"]["rt"] = kind
        (target / "result.json").write_text(json.dumps(result))
        found[kind] = [tensor.nv12 for tensor in read_deployed(tmp_path / kind)[0][0].schedules[0].inputs]
    assert found == {"nv12": [True], "rgb": [False]}


def test_networks_of_a_few_nodes_have_one_sum_of_figures(tmp_path: Path) -> None:
    assert read_small(tmp_path / "nowhere") == []
    for name, count in (("min_res_bayes-e_max_rgb", 2), ("min_none_bernoulli2_max_rgb", 0)):
        target = tmp_path / name
        target.mkdir()
        (target / "expected.json").write_text(json.dumps({"performance": {"us": 12.5, "ddr": 1000.0, "n": count}}))
        (target / "expected_quantized.onnx").write_bytes((BUNDLED / "conversions" / "res.quant.onnx").read_bytes())
    (found,) = read_small(tmp_path)
    assert (found.net, found.march, found.latency_us, found.ddr_bytes) == ("min_res", "bayes-e", 12.5, 1000)
    assert found.small
    assert found.family == "min_res"
