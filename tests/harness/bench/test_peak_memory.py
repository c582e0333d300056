"""Peak memory of a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from engine.errors import ModelError
from harness.bench import peak_memory as module
from harness.bench.peak_memory import Contender, _main, current_peak, peak_memory, reset_peak


def test_the_peak_is_that_of_resident_memory_since_the_reset() -> None:
    if not Path("/proc/self/clear_refs").is_file():
        pytest.skip("the peak can be reset on Linux only")
    reset_peak()
    before = current_peak()
    block = np.ones(2**24)  # 128 MiB
    held = current_peak()
    assert 2**27 * 0.95 < held - before < 2**27 * 1.2
    del block
    assert current_peak() == pytest.approx(held, abs=2**23)  # the kernel counts pages in batches
    reset_peak()
    assert current_peak() < held - 2**26


def test_a_process_of_its_own_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def run(command: list[str], **options: Any) -> SimpleNamespace:
        asked.append((command, options["check"]))
        return SimpleNamespace(returncode=0, stdout="123\n", stderr="noise")

    monkeypatch.setattr(subprocess, "run", run)
    assert peak_memory(Contender.FLOAT, Path("m.onnx"), 4, 2) == 123
    assert asked == [([sys.executable, "-m", "harness.bench.peak_memory", "float", "m.onnx", "4", "2"], False)]


@pytest.mark.parametrize(("text", "reason"), [("first\nlast\n", "last"), ("", "no message")])
def test_a_failure_gives_its_last_line(text: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1, stdout="", stderr=text))
    with pytest.raises(ModelError, match=rf"^m\.onnx: measuring memory failed: {reason}$"):
        peak_memory(Contender.FAST, Path("m.onnx"), 1, 1)


@pytest.mark.parametrize("kind", ["FLOAT", "INT8", "UINT8", "INT16"])
def test_float_models_are_run_on_every_type_of_input(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, number = onnx.helper, getattr(onnx.TensorProto, kind)
    graph = make.make_graph(
        [make.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT)],
        "g",
        [make.make_tensor_value_info("x", number, ["n", 3])],
        [make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 3])],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    _main("float", str(tmp_path / "m.onnx"), "5", "1")
    assert int(capsys.readouterr().out) > 10_000_000


def test_a_model_is_called_three_times_with_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def session(model: str, options: Any, providers: list[str]) -> SimpleNamespace:
        assert (options.intra_op_num_threads, providers) == (2, ["CPUExecutionProvider"])
        inputs = [SimpleNamespace(name="x", type="tensor(int16)", shape=["n", 7])]
        return SimpleNamespace(get_inputs=lambda: inputs, run=lambda names, feed: calls.append(feed["x"]))

    monkeypatch.setattr("onnxruntime.InferenceSession", session)
    monkeypatch.setattr(module, "current_peak", lambda: 1)
    _main("float", "m", "5", "2")
    assert [(call.shape, call.dtype) for call in calls] == [((5, 7), np.int16)] * 3
