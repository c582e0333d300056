"""The fit recovers constants, and its command reports clear errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.compile.compiler import CompileOptions, memory_of
from engine.compile.memory import Memory
from engine.errors import ConfigError
from engine.march.latency import load_latency
from engine.perf.performance import estimate_subgraph
from research.corpus import Row, schedule_of_row
from research.fit import START, Case, document, errors_of, fit_constants, main


def row(channels: int, size: int, kernel: int, latency_us: float = 1.0) -> Row:
    spec = {
        "in": {"data": [1, channels, size, size]},
        "layers": [{"op": "conv", "cout": channels, "k": kernel, "act": "relu"}] * 2,
    }
    return Row(
        id=f"c{channels}_{size}_{kernel}",
        kind="layer",
        march="bayes-e",
        group="conv",
        optimize_level="O2",
        compile_mode="latency",
        core_num=1,
        spec=spec,
        latency_us=latency_us,
        ddr_bytes=1,
        loaded_bytes=1,
        stored_bytes=0,
        subgraphs=1,
    )


def test_constants_of_a_synthetic_machine_are_recovered() -> None:
    """Bandwidths are the measured ones, near which the fit holds them; all other constants are free."""
    file = load_latency("bayes-e")
    bandwidths = {name: START["bayes-e"][name] for name in ("load_gbps", "store_gbps")}
    truth = file.model_copy(update={"fitted": file.fitted.model_copy(update=bandwidths)})
    memory = memory_of(truth, CompileOptions())
    cases = []
    for channels in (16, 64, 256):
        for size in (7, 28, 56):
            for kernel in (1, 3, 5):
                schedule = schedule_of_row(row(channels, size, kernel), truth, memory)
                assert schedule is not None
                measured = row(channels, size, kernel, estimate_subgraph(schedule, truth).latency_us)
                cases.append(Case.of(measured, schedule, truth))
    errors = errors_of(cases, fit_constants(cases, truth)).latency
    assert np.median(errors) < 0.005
    assert errors.max() < 0.02  # the priors pull a little


def test_nv12_images_are_half_the_bytes_of_packed_ones() -> None:
    """224 x 224: rows of three bytes per pixel are padded to 256 pixels, the planes of NV12 are dense."""
    latency = load_latency("bayes-e")
    loaded = {}
    for kind in ("rgb", "nv12"):
        image = row(3, 224, 3).model_copy(update={"spec": {**row(3, 224, 3).spec, "in_type": kind}})
        schedule = schedule_of_row(image, latency, memory_of(latency, CompileOptions()))
        assert schedule is not None
        loaded[kind] = estimate_subgraph(schedule, latency).loaded_bytes
    assert loaded["rgb"] - loaded["nv12"] == 224 * 256 * 3 - 224 * 224 * 3 // 2


def test_unknown_operators_are_left_out() -> None:
    unknown = row(8, 8, 1).model_copy(update={"spec": {"in": {"d": [1, 8, 8, 8]}, "layers": [{"op": "topk"}]}})
    assert schedule_of_row(unknown, load_latency("bayes-e"), Memory(0, 0)) is None


def test_command_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PTQLAB_REFERENCE", raising=False)
    assert main([]) == 255
    assert main([str(tmp_path / "none.jsonl")]) == 255
    errors = capsys.readouterr().err
    assert "PTQLAB_REFERENCE" in errors
    assert "none.jsonl" in errors


def test_tables_go_between_the_marks_of_a_document(tmp_path: Path) -> None:
    file = tmp_path / "model.md"
    file.write_text("before\n<!-- fit: begin -->\nold\n<!-- fit: end -->\nafter\n")
    document(file, ["first\n", "second"])
    tables = "```text\nfirst\n```\n\n```text\nsecond\n```"
    assert file.read_text() == f"before\n<!-- fit: begin -->\n{tables}\n<!-- fit: end -->\nafter\n"


@pytest.mark.parametrize("text", [None, "no marks", "<!-- fit: end -->", "<!-- fit: begin -->"])
def test_a_document_without_marks_is_refused(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "model.md"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=r"model\.md"):
        document(file, ["table"])
