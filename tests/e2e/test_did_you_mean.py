"""A name that is slightly wrong is answered with the right one, wherever a name is looked up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from engine.chips import load_chip
from engine.cli.inputs import read_inputs
from engine.cli.lab.hunt import read_marches
from engine.cli.lab.options import read_march, read_node_info
from engine.cli.vendor.hb_mapper import app as hb_mapper
from engine.config import load_config
from engine.convert import Draft, check
from engine.debug.analysis.metrics import parse_metrics
from engine.debug.analysis.sensitivity import parse_node_type
from engine.debug.bisection.stages import parse_bounds
from engine.debug.bisection.task import open_score
from engine.errors import PtqlabError, hint
from engine.frontend import load_network
from engine.frontend.outputs import cut
from engine.ir import save_model
from engine.rewrite import rewritings_of
from engine.rulebook.book import find_rule
from engine.simulate import Session
from engine.simulate.tensors import random_feed
from harness.cli.main import app as ptqlab
from harness.datasets.label_files import asked_column
from harness.execution.coordinator import executor_factory
from harness.metrics import open_metric
from harness.suites.suite import open_suite
from harness.zoo.cards import load_card
from tests.e2e.field_cases import prepare
from tests.engine.rewrite.networks import HEAD, TAIL, source


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(source(f"{HEAD}y = Sigmoid(c){TAIL}", 11), tmp_path_factory.mktemp("names") / "net.onnx")


LOOKUPS: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "input of a shape": (lambda net: load_network(net, {"xx": (1, 4, 8, 8)}), "x"),
    "input that is fixed": (lambda net: load_network(net, fixed={"xx": (1.0,)}), "x"),
    "output node": (lambda net: cut(load_network(net), ["Sigmoid_3"]), "Sigmoid_2"),
    "input at run time": (lambda net: _session(net).run({"xx": np.zeros((1, 4, 8, 8), np.float32)}), "x"),
    "output at run time": (lambda net: _session(net).run(random_feed(_session(net).inputs, 1), ["zz"]), "z"),
    "input of a file": (lambda net: read_inputs(_session(net), "xx:a.npy,xx:b.npy"), "x"),
    "march": (lambda net: read_march("bayse"), "bayes"),
    "march of a conversion": (lambda net: load_chip("bayse-e"), "bayes-e"),
    "march of a hunt": (lambda net: read_marches("bayse"), "bayes"),
    "key of a node": (lambda net: read_node_info('{"Conv_0": {"InputTipe": "int16"}}'), "InputType"),
    "metric of the debugger": (lambda net: parse_metrics("cosine-similarty"), "cosine-similarity"),
    "kind of node": (lambda net: parse_node_type("activaton"), "activation"),
    "stage of a bound": (lambda net: parse_bounds(["quantised:sqnr=3"]), "quantized"),
    "bound": (lambda net: parse_bounds(["quantized:sqrn=3"]), "sqnr"),
    "metric of a task": (lambda net: open_score("topp1"), "top1"),
    "rule": (lambda net: find_rule("arithmetic.undefined-entris"), "arithmetic.undefined-entries"),
    "rewrite": (lambda net: rewritings_of(load_network(net), "bayes-e", wanted=["sofmax"]), "softmax"),
    "column": (lambda net: asked_column(Path("t.csv"), ["file", "label"], "labl"), "label"),
    "executor": (lambda net: executor_factory("procesess"), "processes"),
    "metric": (lambda net: open_metric("topk1", {}), "top1"),
    "suite": (lambda net: open_suite("smoek"), "smoke"),
    "model": (lambda net: load_card("mnist_lennet"), "mnist_lenet"),
}


def _session(net: Path) -> Session:
    return Session(check(net, Draft("bayes-e")).models["quantized"])


@pytest.mark.parametrize("what", LOOKUPS)
def test_python(what: str, net: Path) -> None:
    call, meant = LOOKUPS[what]
    with pytest.raises(PtqlabError) as caught:
        call(net)
    assert f"did you mean {meant!r}?" in str(caught.value)


VALUES = [
    ("model_parameters", "march", "bayse-e", "bayes-e"),
    ("model_parameters", "marhc", "bayes-e", "march"),
    ("model_parameters", "node_info", {"n": {"InputTipe": "int16"}}, "InputType"),
    ("model_parameters", "remove_node_type", "Quantise", "Quantize"),
    ("input_parameters", "input_type_rt", "featuremp", "featuremap"),
    ("input_parameters", "norm_type", "no_preproces", "no_preprocess"),
    ("calibration_parameters", "calibration_type", "maxx", "max"),
    ("calibration_parameters", "optimization", "set_all_nodes_int61", "set_all_nodes_int16"),
    ("compiler_parameters", "compile_mode", "latensy", "latency"),
    ("compiler_parameters", "optimize_level", "O22", "O2"),
]


@pytest.mark.parametrize(("group", "key", "value", "meant"), VALUES)
def test_keys_and_values_of_a_conversion(group: str, key: str, value: Any, meant: str, tmp_path: Path) -> None:
    config = prepare(tmp_path, "int16_concat.onnx")
    content = yaml.safe_load(config.read_text())
    content[group][key] = value
    config.write_text(yaml.safe_dump(content))
    with pytest.raises(PtqlabError, match=f"did you mean '{meant}'"):
        load_config(config)


def test_a_node_that_is_not_there_is_reported_with_the_near_one(net: Path) -> None:
    from engine.config import NodeInfo

    info = {"Sigmoid_22": NodeInfo.model_validate({"ON": "CPU"})}
    (refusal,) = check(net, Draft("bayes-e", node_info=info)).refusals
    assert "did you mean 'Sigmoid_2'?" in refusal.reason


def test_a_node_that_cannot_be_removed(net: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from engine.cli.vendor.hb_model_modifier import app

    compiled = check(net, Draft("bayes-e")).compiled
    names = [str(node.name) for node in compiled.model.graph]
    path = tmp_path / "net.bin"
    compiled.save(path)
    with caplog.at_level(logging.WARNING):
        done = CliRunner().invoke(app, [str(path), "-r", f"{names[-1]}x"])
    assert done.exit_code == 0, done.output
    assert f"did you mean {names[-1]!r}?" in caplog.text + done.output


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["chekc"], "check"), (["check", "--marhc", "bayes"], "--march"), (["rewrit"], "rewrite")],
)
def test_commands_and_options_of_ptqlab(words: list[str], meant: str) -> None:
    done = CliRunner().invoke(ptqlab, words)
    assert done.exit_code == 2
    assert meant in done.output


@pytest.mark.parametrize(
    ("words", "meant"), [(["chekcer"], "checker"), (["checker", "--model-typ", "onnx"], "--model-type")]
)
def test_commands_and_options_of_hb_mapper(words: list[str], meant: str) -> None:
    done = CliRunner().invoke(hb_mapper, words)
    assert done.exit_code == 2
    assert meant in done.output


def test_a_trial_and_a_suite_that_were_not_run(tmp_path: Path) -> None:
    done = CliRunner().invoke(ptqlab, ["run", "smoek", "--workdir", str(tmp_path)])
    assert done.exit_code != 0
    assert "did you mean 'smoke'?" in str(done.exception)


def test_nothing_near_is_no_suggestion() -> None:
    assert hint("entirely_else", ["x", "y"]) == ""
