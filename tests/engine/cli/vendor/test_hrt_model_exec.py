"""The board's program on the simulator."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from engine.cli.vendor import hrt_model_exec
from engine.compile import load_bin
from engine.config import InputSpec
from engine.simulate import Session
from engine.simulate.tensors import random_feed
from engine.terms import InputType, Layout
from tests.engine.cli.vendor.board import run


def test_infer_dumps_what_the_session_gives(folder: Path) -> None:
    session = Session(load_bin(folder / "image.bin").executable)
    feed = random_feed(session.inputs, 1)
    (array,) = feed.values()
    array.tofile("input.bin")
    run(hrt_model_exec.app, "infer", "--model_file", "image.bin", "--input_file", "input.bin", "--enable_dump", "1")
    (expected,) = session.run(feed).values()
    (dumped,) = folder.glob("model_infer_output_0_*.bin")
    np.testing.assert_array_equal(np.fromfile(dumped, expected.dtype), expected.reshape(-1))


def test_intermediate_results_and_classes(folder: Path) -> None:
    shown = run(
        hrt_model_exec.app,
        *("infer", "--model_file", "image.bin", "--dump_intermediate", "2", "--enable_cls_post_process", "true"),
    )
    assert "[0]: class" in shown
    count = sum(len(node.outputs) for node in load_bin(folder / "image.bin").model.graph)
    assert len(list(folder.glob("*.txt"))) >= count


def test_maps_are_dumped_as_the_hardware_pads_them(folder: Path) -> None:
    """16 x 16 pixels of 8 channels: bayes-e computes 16 channels."""
    sizes = {}
    for kind in ("2", "3"):
        run(hrt_model_exec.app, "infer", "--model_file", "feature.bin", "--dump_intermediate", kind)
        sizes[kind] = {path.name: path.stat().st_size for path in folder.glob("*.bin")}
    assert sizes["2"]["c0_quantized.bin"] == 2 * sizes["3"]["c0_quantized.bin"] == 16 * 16 * 16


def test_perf_and_profile(folder: Path) -> None:
    shown = run(
        hrt_model_exec.app,
        *("perf", "--model_file", "image.bin", "--frame_count", "7", "--thread_num", "2", "--profile_path", "out"),
    )
    assert "Frame count   is: 7" in shown
    first, second = (folder / "out" / "profiler.log").read_text().split("***")
    assert json.loads(first)["running_condition"]["frame_count"] == 7
    details = json.loads(second)
    assert "BPU_image_subgraph_0" in details["model_latency"]
    cpu = [entry["avg_time"] for name, entry in details["model_latency"].items() if not name.startswith("BPU_")]
    assert details["chip_latency"]["CPU_inference_time_cost"]["avg_time"] == pytest.approx(sum(cpu))
    assert {"Preprocess", "image_subgraph_0_output_layout_convert"} <= set(details["model_latency"])
    assert set(details["task_latency"]) == {"TaskPendingTime", "TaskRunningTime"}
    assert (folder / "out" / "profiler.csv").read_text().startswith("name,avg_time_ms")


def test_frames_are_compared_and_cores_have_no_effect(folder: Path) -> None:
    shown = run(hrt_model_exec.app, "infer", "--model_file", "image.bin", "--frame_count", "3", "--core_id", "1")
    assert "3 frames: 0 differ from the first in their outputs" in shown
    assert "--core_id has no effect" in shown


def test_model_info(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image input is what the camera delivers, not the integers that the network computes with."""
    shown = run(hrt_model_exec.app, "model_info", "--model_file", "image.bin")
    assert "[model name]: image" in shown
    assert "valid shape: (1,3,32,32)\ntensor type: int8\n" in shown
    spec = InputSpec(
        name="data", type_train=InputType.RGB, layout_train=Layout.NCHW, type_rt=InputType.NV12, layout_rt=Layout.NHWC
    )
    monkeypatch.setattr("engine.frontend.preprocess.saved_inputs", lambda _: (spec,))
    shown = run(hrt_model_exec.app, "model_info", "--model_file", "image.bin")
    assert "name: data\nvalid shape: (1,48,32)\ntensor type: NV12 (uint8)\n" in shown


def test_mistakes(folder: Path) -> None:
    (folder / "short.bin").write_bytes(b"123")
    np.save(folder / "double.npy", np.zeros(3))
    for arguments, message in (
        (["--input_file", "short.bin"], "holds 3 values of int8, expected"),
        (["--input_file", "double.npy"], "values of float64, expected"),
        (["--input_file", "a.bin,b.bin"], "expected one per input"),
        (["--roi_infer", "true", "--roi", "1,2,3,4"], "no resizer"),
        (["--dump_txt_axis", "5"], "have up to 4 axes"),
    ):
        result = CliRunner().invoke(hrt_model_exec.app, ["infer", "--model_file", "image.bin", *arguments])
        assert message in str(result.exception)
