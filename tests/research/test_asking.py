"""Asking the original for latencies: what is written for it, what is read of its pages, how a run goes on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from engine.errors import ConfigError
from engine.terms import OptimizeLevel
from engine.toolchain.tool import Toolchain
from research import asking
from research.asking import AskedDraw, main, read_asked, read_page, turns, write_asked
from research.draws import SEED, Drawn, latency_draw

PAGE = {
    "summary": {
        "latency (us)": 121.3,
        "loaded bytes per run": 133632,
        "stored bytes per run": 458752,
        "layer details": [
            ["layer", "ops", "original output shape", "aligned output shape", "cost", "load/store cost", "period"],
            ["c1", "57,802,752", "[1,56,56,32]", "[1,56,56,32]", "20 us (16.2% of model)", "<1 us", "11 ~ 37 us (26)"],
        ],
    }
}


def test_a_page_is_read() -> None:
    found = read_page(PAGE)
    (layer,) = found.layers
    assert (found.latency_us, found.ddr_bytes) == (121.3, 592384)
    assert (layer.shape, layer.compute_us, layer.transfer_us) == ((1, 56, 56, 32), 20.0, 0.5)
    assert (layer.start_us, layer.end_us) == (11.0, 37.0)


def test_a_draw_is_written_with_its_options(tmp_path: Path) -> None:
    item = latency_draw("conv_int16", 0, "bayes-e")
    content = yaml.safe_load(write_asked(item, tmp_path).read_text())
    assert (tmp_path / "net.onnx").stat().st_size > 0
    assert content["model_parameters"]["node_info"].keys() == item.requests.keys()
    assert content["compiler_parameters"]["optimize_level"] == item.level.value


def test_families_take_turns() -> None:
    keys = [("a", 1, "m", 7), ("b", 1, "m", 7), ("a", 2, "m", 7), ("b", 2, "m", 7)]
    assert list(turns(["a", "b"], 1, 2, "m", 7)) == keys


TOOL = """
import json, pathlib, sys, yaml
config = pathlib.Path(sys.argv[sys.argv.index("--config") + 1])
out = config.parent / yaml.safe_load(config.read_text())["model_parameters"]["working_dir"]
out.mkdir()
(out / "net_quantized_model.onnx").write_bytes(b"")
(out / "net_subgraph_0.json").write_text(json.dumps(PAGE))
print("FPS=8246.2, latency = 121.3 us, DDR = 592384 bytes")
"""


def test_what_is_known_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "tool.py"
    script.write_text(f"PAGE = {PAGE!r}\n{TOOL}")
    output = tmp_path / "asked.jsonl"
    arguments = ["--march", "bayes-e", "--family", "pool", "--toolchain", f"{sys.executable} {script}"]
    assert main([*arguments, "--draws", "1", "-o", str(output)]) == 0
    (first,) = read_asked(output)
    assert (first.key, first.latency_us, first.failure) == (("pool", 0, "bayes-e", SEED), 121.3, "")
    output.write_text(output.read_text() + '{"family": "po')  # a run that was ended
    asked: list[object] = []
    real = asking.ask

    def watched(item: Drawn, tool: Toolchain) -> AskedDraw:
        asked.append(item.key)
        return real(item, tool)

    monkeypatch.setattr(asking, "ask", watched)
    assert main([*arguments, "--draws", "2", "-o", str(output)]) == 0
    assert asked == [("pool", 1, "bayes-e", SEED)]
    assert [answer.index for answer in read_asked(output)] == [0, 1]


def test_a_file_that_is_damaged_in_the_middle_is_refused(tmp_path: Path) -> None:
    line = AskedDraw(family="pool", index=0, march="bayes", level=OptimizeLevel.O2, cores=1).model_dump_json()
    (tmp_path / "asked.jsonl").write_text(f"{line}\n{json.dumps(1)}\n{line}\n")
    with pytest.raises(ConfigError, match="line 2"):
        read_asked(tmp_path / "asked.jsonl")
    assert read_asked(tmp_path / "absent.jsonl") == ()


def test_without_a_toolchain_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PTQLAB_HB_MAPPER", raising=False)
    assert main(["--march", "bayes-e", "-o", str(tmp_path / "asked.jsonl")]) == ConfigError("").exit_code
