"""Times of CPU nodes measured on a board: which files are read, which nodes they count for, how they are kept."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from engine.board import (
    BoardTimes,
    board_file,
    cpu_statement,
    entry_name,
    keep_times,
    read_measured,
    stored_times,
    times_of,
)
from engine.errors import ConfigError
from engine.perf.cpu import CpuCost

GUIDE = """{
"perf_result": {"FPS": 244.20471681410527, "average_latency": 4.003105640411377},
"running_condition": {"core_id": 0, "frame_count": 200, "model_name": "mobilenetv1_224x224_nv12", "thread_num": 1}
}
***
{
"chip_latency": {
"BPU_inference_time_cost": {
"avg_time": 3.42556,
"model_latency": {
"BPU_MOBILENET_subgraph_0": {"avg_time": 3.42556, "max_time": 3.823, "min_time": 3.057},
"Dequantize_fc7_1_HzDequantize": {"avg_time": 0.12307, "max_time": 0.274, "min_time": 0.044},
"MOBILENET_subgraph_0_output_layout_convert": {"avg_time": 0.025945, "max_time": 0.069, "min_time": 0.012},
"Preprocess": {"avg_time": 0.009245, "max_time": 0.027, "min_time": 0.003},
"Softmax_prob": {"avg_time": 0.13366999999999998, "max_time": 0.338, "min_time": 0.042}
},
"task_latency": {
"TaskPendingTime": {"avg_time": 0.04952, "max_time": 0.12, "min_time": 0.009},
"TaskRunningTime": {"avg_time": 3.870965, "max_time": 4.48, "min_time": 3.219}
}
}
} "max_time": 3.823,
"min_time": 3.057
},
"""
"""The profile of the guide, whose second part is cut and joined there."""

SOFTMAX = CpuCost("prob", "Softmax", 62.0, 1000)
DEQUANTIZE = CpuCost("fc7_1_HzDequantize", "HzDequantize", 44.0, 1000)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PTQLAB_BOARDS", str(tmp_path / "boards"))
    return tmp_path


def written(folder: Path, text: str, name: str = "profiler.log") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def test_the_profile_of_the_guide_is_read(folder: Path) -> None:
    found = read_measured(written(folder, GUIDE))
    assert set(found.entries) == {
        "Dequantize_fc7_1_HzDequantize",
        "MOBILENET_subgraph_0_output_layout_convert",
        "Preprocess",
        "Softmax_prob",
    }
    assert found.bpu_ms == pytest.approx(3.42556)
    assert (found.source.file, found.source.date[:7]) == ("profiler.log", "2023-11")
    assert [entry_name(node) for node in (SOFTMAX, DEQUANTIZE)] == ["Softmax_prob", "Dequantize_fc7_1_HzDequantize"]


def test_a_measured_node_has_its_own_time_and_others_of_its_type_in_proportion(folder: Path) -> None:
    times = times_of("X3", "bernoulli2", read_measured(written(folder, GUIDE)), [SOFTMAX, DEQUANTIZE])
    assert times.us(SOFTMAX) == pytest.approx(133.67)
    larger = replace(SOFTMAX, name="other", estimated_us=124.0, elements=4100)
    assert times.us(larger) == pytest.approx(2 * 133.67)
    assert times.us(replace(larger, name="prob")) == pytest.approx(2 * 133.67)  # another node of this name
    assert times.us(replace(SOFTMAX, op_type="Tanh")) is None
    assert times.sources[0].entries == 2


def test_a_table_gives_each_node_of_a_type_the_same_time(folder: Path) -> None:
    times = times_of("X3", "bernoulli2", read_measured(written(folder, "Softmax: 0.5\nHzDequantize: 0.1\n")), [])
    assert [times.us(node) for node in (SOFTMAX, DEQUANTIZE, replace(SOFTMAX, elements=1))] == [500, 100, 500]


@pytest.mark.parametrize("text", ["", "[1]", "Softmax: fast", "Softmax: -1", "Softmax: .inf", "a b: 1", "{", "3"])
def test_other_files_are_refused(folder: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"profiler\.log: neither a profiler\.log of hrt_model_exec"):
        read_measured(written(folder, text))


def test_negative_times_and_files_that_are_not_there_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="times are numbers above 0"):
        read_measured(written(folder, '{"Softmax_a": {"avg_time": -1.0}}'))
    with pytest.raises(ConfigError, match="cannot be read"):
        read_measured(folder / "absent.log")


def test_a_profile_of_another_network_is_refused(folder: Path) -> None:
    measured = read_measured(written(folder, GUIDE))
    with pytest.raises(ConfigError, match=r"no CPU node of this network on bernoulli2; it has .*Softmax_prob.*Add_x"):
        times_of("X3", "bernoulli2", measured, [CpuCost("x", "Add", 1.0, 1)])


def test_what_is_kept_is_read_again_and_grows(folder: Path) -> None:
    assert stored_times("bernoulli2") is None
    first = keep_times(times_of("X3", "bernoulli2", read_measured(written(folder, GUIDE)), [SOFTMAX]))
    assert stored_times("bernoulli2") == first
    table = read_measured(written(folder, "Tanh: 0.5\n", "types.yaml"))
    both = keep_times(times_of("X3", "bernoulli2", table, []))
    assert [source.file for source in both.sources] == ["profiler.log", "types.yaml"]
    assert both.us(SOFTMAX) == pytest.approx(133.67)
    assert both.us(replace(SOFTMAX, op_type="Tanh")) == 500
    assert both.origin == "X3 (profiler.log of 2023-11-14, types.yaml of 2023-11-14)"
    other = keep_times(times_of("Ultra", "bernoulli2", table, []))
    assert stored_times("bernoulli2") == other
    assert other.us(SOFTMAX) is None


def test_a_damaged_file_has_a_message_with_the_way_out(folder: Path) -> None:
    keep_times(BoardTimes(board="X3", march="bernoulli2"))
    text = json.loads(board_file("bernoulli2").read_text())
    board_file("bernoulli2").write_text(json.dumps({**text, "board": "X5"}))
    with pytest.raises(ConfigError, match="remove it and measure again"):
        stored_times("bernoulli2")


def test_what_cpu_times_rest_on_is_said() -> None:
    assert cpu_statement(0.0, 0.0, "") == ""
    assert "from nothing that was measured on a board" in cpu_statement(10.0, 0.0, "")
    assert cpu_statement(10.0, 2.5, "X3 (a of b)").startswith("CPU times: 25 % measured, X3 (a of b); the rest")
    assert cpu_statement(10.0, 10.0, "X3 (a of b)") == "CPU times were measured: X3 (a of b)."
