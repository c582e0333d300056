"""``ptqlab predict``: figures by march, by node, and what changes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.chips.latency import load_latency
from engine.cli.lab.predict import as_dict
from engine.errors import ConfigError
from harness.cli.main import app
from tests.engine.cli.lab.commands import MARCHES, model, printed
from tests.engine.convert.conftest import Converted


def test_predict_gives_figures_by_march(tmp_path: Path) -> None:
    found = printed("predict", model(), "--march", ",".join(MARCHES), "--input-type", "nv12")
    assert tuple(found) == MARCHES
    for figures in found.values():
        assert figures["latency_us"] > 0
        assert figures["ddr_bytes"] == figures["loaded_bytes"] + figures["stored_bytes"]
        assert figures["subgraphs"] >= 1
        assert isinstance(figures["cpu_nodes"], list)
    assert list(tmp_path.iterdir()) == []


def test_predict_says_which_node_costs() -> None:
    figures = printed("predict", model("mnist_resnet8"))["bayes-e"]
    assert sum(cost["latency_us"] for cost in figures["nodes"]) == pytest.approx(figures["latency_us"])
    assert sum(part["latency"] for part in figures["subgraphs_us_ddr"]) == pytest.approx(figures["latency_us"])
    assert sum(part["ddr"] for part in figures["subgraphs_us_ddr"]) == figures["ddr_bytes"]
    dearest = figures["nodes"][0]["node"]
    table = CliRunner().invoke(app, ["predict", model("mnist_resnet8"), "--nodes", "1"]).stdout
    assert dearest in table
    assert f"{len(figures['nodes']) - 1} others" in table
    assert dearest not in CliRunner().invoke(app, ["predict", model("mnist_resnet8"), "--nodes", "0"]).stdout


def test_what_if() -> None:
    base = printed("predict", model())["bayes-e"]
    node = next(node["node"] for node in printed("check", model())["nodes"] if node["type"] == "HzSQuantizedConv")
    wide = printed("predict", model(), "--node-info", json.dumps({node: {"InputType": "int16"}}))["bayes-e"]
    assert wide["latency_us"] != base["latency_us"]
    smaller = printed("predict", model(), "--input-shape", "image=1x3x64x64")["bayes-e"]
    assert smaller["latency_us"] < base["latency_us"]
    image = printed("predict", model(), "--input-type", "rgb")["bayes-e"]
    assert image["loaded_bytes"] != base["loaded_bytes"]


def test_a_march_without_figures_is_extrapolated_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    result = CliRunner().invoke(app, ["predict", model("mnist_lenet"), "--march", "nash-e,bayes-e", "--json"])
    found = json.loads(result.stdout)
    assert found["nash-e"].pop("extrapolated_from") == "bayes-e"
    assert found["bayes-e"].pop("extrapolated_from") is None
    assert found["nash-e"] == found["bayes-e"]
    assert "march nash-e: extrapolated from bayes-e; nothing measured" in caplog.text
    checked = printed("check", model("mnist_lenet"), "--march", "nash-m")
    assert checked == printed("check", model("mnist_lenet"), "--march", "bayes-e")


def test_figures_are_those_of_the_estimate(converted: Converted) -> None:
    result = converted.result
    found = as_dict("nash-e", result)
    performance = result.performance
    assert (found["latency_us"], found["fps"], found["ddr_bytes"]) == (
        performance.latency_us,
        performance.fps,
        performance.ddr_bytes,
    )
    assert found["uncertainty"] == load_latency("bayes-e").accuracy.model_dump()
    assert (found["extrapolated_from"], as_dict("bayes-e", result)["extrapolated_from"]) == ("bayes-e", None)
    latencies = [node["latency_us"] for node in found["nodes"]]
    assert latencies == sorted(latencies, reverse=True)
    assert sum(latencies) == pytest.approx(performance.latency_us)


def test_times_measured_on_a_board_replace_estimates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTQLAB_BOARDS", str(tmp_path / "boards"))
    arguments = ("predict", model("mnist_lenet"), "--march", "bernoulli2")
    before = printed(*arguments)["bernoulli2"]
    assert (before["board"], before["cpu_measured_us"]) == (None, 0.0)
    text = CliRunner().invoke(app, [*arguments]).stdout
    assert "CPU times are estimates from nothing that was measured on a board" in text
    node = next(node for node in before["cpu_us_by_node"] if node["type"] == "HzDequantize")
    profile = tmp_path / "profiler.log"
    profile.write_text(
        json.dumps({"model_latency": {f"Dequantize_{node['node']}": {"avg_time": 0.5}, "BPU_net": {"avg_time": 3.0}}})
    )
    shown = CliRunner().invoke(app, [*arguments, "--profile", str(profile), "--board", "RDK X3"]).stdout
    assert "BPU subgraphs took 3.000 ms there" in shown
    after = printed(*arguments)["bernoulli2"]
    assert after["cpu_measured_us"] == pytest.approx(500)
    assert after["cpu_us"] == pytest.approx(before["cpu_us"] - node["us"] + 500)
    assert after["board"].startswith("RDK X3 (profiler.log of ")
    assert after["latency_us"] == before["latency_us"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--march", "bayes,bayes-e", "--profile", "PROFILE"), "was measured on one board"),
        (("--board", "X3"), "belongs to --profile"),
        (("--profile", "PROFILE"), "has no CPU node of this network on bayes-e"),
    ],
)
def test_profiles_that_do_not_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], reason: str
) -> None:
    monkeypatch.setenv("PTQLAB_BOARDS", str(tmp_path / "boards"))
    profile = tmp_path / "profiler.log"
    profile.write_text('{"Softmax_of_another": {"avg_time": 0.5}}')
    given = [str(profile) if option == "PROFILE" else option for option in options]
    result = CliRunner().invoke(app, ["predict", model("mnist_lenet"), *given])
    assert isinstance(result.exception, ConfigError)
    assert reason in str(result.exception)
    assert not (tmp_path / "boards").exists()
