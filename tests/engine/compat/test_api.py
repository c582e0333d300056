"""The look-alike of ``horizon_nn.api``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.compat import api
from engine.compat.api import ORTExecutor, convert, infer
from engine.config import load_config
from engine.errors import InferenceError
from engine.ir import save_model
from tests.engine.calibrate.models import graph
from tests.engine.conformance.models import write_network

X = {"x": np.asarray([[1.0, -2.0]], np.float32)}


def model() -> ir.Model:
    nodes = [helper.make_node("Abs", ["x"], ["a"], name="abs"), helper.make_node("Neg", ["x"], ["b"], name="neg")]
    return graph(nodes, {"x": (1, 2)}, ["a", "b"])


def test_models_of_every_form(tmp_path: Path) -> None:
    path = save_model(model(), tmp_path / "m.onnx")
    for given in (model(), ir.to_proto(model()), path, str(path)):
        executor = ORTExecutor(given)
        assert executor.create_session() is executor
        assert (executor.input_names, executor.output_names) == (["x"], ["a", "b"])
        assert {name: array.tolist() for name, array in infer(given, X).items()} == {"a": [[1, 2]], "b": [[-1, 2]]}


def test_outputs_are_in_the_order_asked_for() -> None:
    executor = ORTExecutor(model())
    assert [array.tolist() for array in executor.inference(X, ["b", "a"])] == [[[-1, 2]], [[1, 2]]]


def test_wrong_names_are_refused() -> None:
    with pytest.raises(InferenceError, match="z"):
        infer(model(), {"z": X["x"]})


def test_a_file_is_converted_as_makertbin_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_network(tmp_path)
    asked = []
    monkeypatch.setattr(api, "run_conversion", lambda config: asked.append(config) or "result")
    assert convert(path) == "result"
    assert asked == [load_config(path)]
