"""Arguments of ``hb_mapper`` that need no conversion."""

from __future__ import annotations

import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from engine.cli.vendor.hb_mapper import log_reasons, node_table, refusal_table, run_check
from engine.convert import Draft, NodeRow
from engine.convert.original import original_tool
from engine.errors import UnsupportedError
from engine.ir import save_model
from engine.ops.core.reasons import Code, because
from engine.place import Refusal
from tests.engine.calibrate.models import graph


def test_node_table_shows_what_is_known() -> None:
    rows = (
        NodeRow("conv", "BPU", 0, "HzSQuantizedConv", 0.99987654, 54.533812, "int8"),
        NodeRow("softmax", "CPU", None, "Softmax", None, None, "float"),
    )
    lines = node_table(rows).splitlines()
    assert lines[1].split() == ["Node", "ON", "Subgraph", "Type", "Cosine", "Similarity", "Threshold", "DataType"]
    assert lines[3].split() == ["conv", "BPU", "id(0)", "HzSQuantizedConv", "0.999877", "54.5338", "int8"]
    assert lines[4].split() == ["softmax", "CPU", "--", "Softmax", "--", "--", "float"]
    assert "Cosine" not in node_table(rows, compared=False)
    marked = node_table((rows[0], replace(rows[1], unmeasured="unmeasured: Softmax on rank 6"))).splitlines()
    assert marked[1].split()[-2:] == ["DataType", "Remark"]
    assert marked[4].endswith("float     unmeasured: Softmax on rank 6")


def test_every_cpu_node_has_its_reason_and_a_remedy(caplog: pytest.LogCaptureFixture) -> None:
    rows = (
        NodeRow("conv", "BPU", 0, "HzSQuantizedConv", None, None, "int8"),
        NodeRow("wide", "CPU", None, "Conv", None, None, "float", because(Code.STRIDE, limit=4)),
        NodeRow("quiet", "CPU", None, "HzDequantize", None, None, "int8"),
    )
    with caplog.at_level(logging.WARNING):
        log_reasons(rows, logging.getLogger("engine"))
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("Node wide (Conv) runs on the CPU: stride above 4. Remedy: ")


def test_the_command_starts_without_what_computes() -> None:
    """Start-up is short because libraries that take long to load come only with what needs them."""
    code = (
        "import sys\n"
        "from engine.cli.vendor.hb_mapper import main\n"
        "try:\n    main(['--version'])\n"
        "finally:\n    print(*{name.partition('.')[0] for name in sys.modules})\n"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    loaded = set(said.split())
    assert "typer" in loaded
    assert not loaded & {"numpy", "onnx", "onnx_ir", "onnxruntime", "numba", "llvmlite", "pydantic", "scipy", "rich"}


def test_requests_made_in_vain_are_listed_with_the_reason() -> None:
    table = refusal_table((Refusal("pool", "int16", "it runs on the CPU"), Refusal("a", "ON: BPU", "none")))
    assert [line.split("  ")[0] for line in table.splitlines()[1:]] == ["Node", table.splitlines()[2], "pool", "a"]
    assert "it runs on the CPU" in table


@pytest.mark.parametrize("march", ["bernoulli2", "bayes-e"])
def test_the_checker_refuses_what_no_conversion_would_give(
    march: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PRelu that a Resize alone reads: the original's checker ends while it quantises, on bernoulli2 alone."""
    monkeypatch.chdir(tmp_path)
    weight = np.random.default_rng(0).normal(size=(8, 8, 1, 1)).astype(np.float32)
    resize = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="first"),
        helper.make_node("PRelu", ["c", "slope"], ["p"], name="rectifier"),
        helper.make_node("Resize", ["p", "", "scales"], ["r"], name="resize", **resize),
        helper.make_node("Conv", ["r", "w"], ["y"], name="last"),
    ]
    constants = {
        "w": weight,
        "slope": np.full((8, 1, 1), 0.2, np.float32),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    save_model(graph(nodes, {"x": (1, 8, 8, 8)}, ["y"], constants), tmp_path / "net.onnx")

    def checked() -> None:
        run_check(tmp_path / "net.onnx", Draft(march), logging.getLogger("engine"), original_tool(march))

    if march == "bernoulli2":
        with pytest.raises(UnsupportedError, match=r"rectifier \(PRelu\) .*run_on_cpu: rectifier"):
            checked()
    else:
        checked()
        assert (tmp_path / ".hb_check").is_dir()
