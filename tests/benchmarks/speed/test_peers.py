"""Int8 peers: what they are made from and when they are left out; no speeds are asserted."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

from benchmarks.speed import peers
from benchmarks.speed.peers import OpenVino, int8_file, int8_peers
from engine.ir import load_model, save_model
from engine.simulate.bench import FloatContender
from engine.simulate.tensors import TensorInfo
from tests.engine.simulate.test_session import float_model


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A float network."""
    save_model(float_model(), tmp_path / "float.onnx")
    return tmp_path / "float.onnx"


def test_the_int8_network_computes_what_the_float_one_does(tmp_path: Path) -> None:
    import onnxruntime

    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 11]> net (float[1, 4] x) => (float[1, 3] y) '
        "<float[4, 3] w = {1, 2, 3, -4, 5, 6, 7, -8, 9, 1, 1, 2}> {y = MatMul(x, w)}"
    )
    file = tmp_path / "float.onnx"
    onnx.save(model, file)
    target = int8_file(file, tmp_path)
    assert {"QuantizeLinear", "DequantizeLinear"} <= {node.op_type for node in onnx.load(target).graph.node}
    sessions = [onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]) for path in (file, target)]
    given = np.random.default_rng(1).normal(size=(50, 1, 4)).astype(np.float32) * 30
    ours, theirs = (np.ravel([session.run(None, {"x": x})[0] for x in given]) for session in sessions)
    assert np.corrcoef(ours, theirs)[0, 1] > 0.95
    assert logging.root.manager.disable == logging.NOTSET


def test_peers_run_any_batch(file: Path, tmp_path: Path) -> None:
    found, reasons = int8_peers(file, tmp_path, threads=1)
    assert found[0].name == "int8 ORT"
    assert reasons == []
    contender = FloatContender(load_model(file), 1)
    shapes = {info.name: info.shape for info in contender.inputs}
    for peer in found:
        peer.run({name: np.zeros((3 * shape[0], *shape[1:]), np.float32) for name, shape in shapes.items()})


def test_a_network_that_cannot_be_quantised_has_no_peers(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Path:
        raise RuntimeError("\nno such operator\nat line 7")

    monkeypatch.setattr(peers, "int8_file", refuse)
    assert int8_peers(file, tmp_path, 1) == ([], ["int8 ORT: no such operator"])


def test_a_peer_that_fails_is_left_out(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(peers, "has_openvino", lambda: True)
    monkeypatch.setattr(OpenVino, "exit_code_of_a_trial", lambda *_: 0)
    monkeypatch.setattr(OpenVino, "run", refuse)
    found, reasons = int8_peers(file, tmp_path, 1)
    assert [peer.name for peer in found] == ["int8 ORT"]
    assert reasons == ["int8 OpenVINO: RuntimeError"]


def test_a_peer_that_crashes_is_left_out(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenVINO 2026.4 ends with a segmentation fault while it compiles some networks of the reference."""
    monkeypatch.setattr(peers, "has_openvino", lambda: True)
    monkeypatch.setattr(OpenVino, "exit_code_of_a_trial", lambda *_: -11)
    found, reasons = int8_peers(file, tmp_path, 1, (1, 8))
    assert [peer.name for peer in found] == ["int8 ORT"]
    assert reasons == ["int8 OpenVINO: its process ends with exit code -11"]


@pytest.mark.nightly
@pytest.mark.parametrize(("source", "code"), [("", 0), ("raise RuntimeError('refused')", 0), ("os._exit(7)", 7)])
def test_a_trial_tells_crashes_from_refusals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, code: int
) -> None:
    """The trial's process finds a module named openvino that does what a crashing one does."""
    run = f"def infer(*_, **__):\n        import os\n        {source or 'pass'}"
    (tmp_path / "openvino.py").write_text(
        "class Core:\n    def __getattr__(self, _):\n        return self\n"
        f"    def __call__(self, *_, **__):\n        return self\n    {run}\n"
        "    def reshape(self, _):\n        pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    inputs = (TensorInfo("x", (1, 2), np.dtype(np.float32)),)
    assert OpenVino(b"", inputs, True, 1).exit_code_of_a_trial((1, 8)) == code


def test_openvino_compiles_once_per_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole batches in one call; else one sample at a time."""
    calls: list[tuple[str, Any]] = []

    class Fake:
        def __getattr__(self, name: str) -> Any:
            def method(*given: Any, **_: Any) -> Fake:
                calls.append((name, given))
                return self

            return method

    monkeypatch.setitem(__import__("sys").modules, "openvino", Fake())
    inputs = (TensorInfo("x", (1, 2), np.dtype(np.float32)),)
    feed = {"x": np.zeros((3, 2), np.float32)}
    whole = OpenVino(b"", inputs, True, 2)
    whole.run(feed)
    whole.run(feed)
    assert [given for name, given in calls if name == "reshape"] == [({"x": [3, 2]},)]
    (options,) = [given[2] for name, given in calls if name == "compile_model"]
    assert options["INFERENCE_NUM_THREADS"] == 2
    calls.clear()
    OpenVino(b"", inputs, False, 1).run(feed)
    assert [name for name, _ in calls].count("infer") == 3
    assert [given for name, given in calls if name == "reshape"] == [({"x": [1, 2]},)]
