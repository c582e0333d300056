"""``ptqlab rewrite``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from engine.errors import CalibrationDataError, ConfigError
from engine.frontend import load_network
from engine.ir import load_model, save_model
from engine.rewrite.proof import FloatNetwork, random_inputs
from harness.cli.main import app
from harness.cli.rewrite import rewrite
from tests.engine.rewrite.networks import HEAD, TAIL, source

SOFTMAX = f"{HEAD}y = Softmax(c, axis=1){TAIL}"
DECODED = f"{HEAD}b = Conv(c, W(16, 8, 1, 1)); t = CumSum(b, 1); y = Mul(t, W(16, 8, 8))"


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return save_model(source(SOFTMAX), tmp_path / "net.onnx")


def printed(*words: str) -> str:
    done = CliRunner().invoke(app, ["rewrite", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_proposals_are_shown_and_nothing_is_written(net: Path) -> None:
    text = printed(str(net))
    assert "softmax: wins 0." in text
    assert "nodes: Softmax_2" in text
    assert "no longer on the CPU: Softmax_2" in text
    assert "equal: largest difference" in text
    assert "run_on_bpu: Softmax_2_softmax" in text
    assert "--apply softmax,versions" in text
    assert list(net.parent.iterdir()) == [net]


def test_the_network_is_written_and_equal(net: Path) -> None:
    text = printed(str(net), "--apply", "all")
    new = net.with_name("net_rewritten.onnx")
    assert f"written      {new.name}" in text
    assert "calibration_parameters: run_on_bpu: 'Softmax_2_softmax'" in text
    onnx.checker.check_model(str(new), full_check=True)
    assert load_model(new).opset_imports[""] == 11
    before, after = load_network(net), load_network(new)
    feed = random_inputs(before, np.random.default_rng(5))
    for exact, found in zip(FloatNetwork(before).run(feed), FloatNetwork(after).run(feed), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)


def test_the_tail_is_a_file_of_its_own(net: Path) -> None:
    save_model(source(DECODED, 11), net)
    assert "THE OUTPUTS CHANGE" in printed(str(net), "-o", "cut.onnx", "--apply", "tail")
    head, tail = load_model("cut.onnx"), load_model("cut_tail.onnx")
    assert [value.name for value in head.graph.outputs] == [value.name for value in tail.graph.inputs] == ["b"]
    feed = random_inputs(head, np.random.default_rng(5))
    made = FloatNetwork(tail).run({"b": FloatNetwork(head).run(feed)[0]})
    np.testing.assert_allclose(made[0], FloatNetwork(load_model(net)).run(feed)[0], rtol=1e-4, atol=1e-4)


def test_output_alone_applies_what_keeps_the_outputs(net: Path) -> None:
    printed(str(net), "-o", "new.onnx")
    assert sorted(path.name for path in net.parent.iterdir()) == ["net.onnx", "new.onnx"]


def test_given_samples_are_compared_too(net: Path, tmp_path: Path) -> None:
    (tmp_path / "data/x").mkdir(parents=True)
    for index in range(3):
        np.save(tmp_path / f"data/x/{index}.npy", np.full((1, 4, 8, 8), index, np.float32))
    assert "3 random and 2 given samples" in printed(str(net), "--data", str(tmp_path / "data"), "--samples", "2")
    np.save(tmp_path / "data/x/0.npy", np.zeros((1, 4, 8, 9), np.float32))
    with pytest.raises(CalibrationDataError):
        rewrite(str(net), data=tmp_path / "data")


def test_the_data_of_a_card_are_compared_too() -> None:
    content = json.loads(printed("mnist_lenet", "--samples", "2", "--json"))
    assert content["refusal"] == ""
    assert all(each["samples"] == 5 for each in content["proposals"])


def test_json_has_all_figures(net: Path) -> None:
    content = json.loads(printed(str(net), "--apply", "softmax", "--json"))
    assert content["written"] == ["net_rewritten.onnx"]
    softmax = content["proposals"][0]
    assert (softmax["name"], softmax["nodes"], softmax["keeps_outputs"]) == ("softmax", ["Softmax_2"], True)
    assert softmax["wins_us"] == pytest.approx(
        softmax["before"]["bpu_us"]
        + softmax["before"]["cpu_us"]
        - softmax["after"]["bpu_us"]
        - softmax["after"]["cpu_us"]
    )
    assert content["before"]["cpu_nodes"] == ["Softmax_2"]


def test_nothing_to_do_is_said_and_nothing_written(net: Path) -> None:
    save_model(source(f"{HEAD}y = Relu(c){TAIL}", 11), net)
    assert "Nothing to rewrite" in printed(str(net), "-o", "new.onnx")
    assert not Path("new.onnx").exists()


def test_bad_input_has_one_message_each(net: Path) -> None:
    with pytest.raises(ConfigError, match="unknown file or model card 'mnist_lenett'"):
        rewrite("mnist_lenett")
    with pytest.raises(ConfigError, match="would overwrite"):
        rewrite(str(net), output=net)
    with pytest.raises(ConfigError, match="did you mean 'softmax'"):
        rewrite(str(net), apply=["softmx"])
    assert list(net.parent.iterdir()) == [net]
