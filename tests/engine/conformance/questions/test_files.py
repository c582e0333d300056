"""The folder of questions, and its way through ``record`` and ``check``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.config import load_config
from engine.conformance.cases import find_cases
from engine.conformance.measures import measure
from engine.conformance.questions.files import PAGE, write_questions
from engine.conformance.questions.network import SAMPLES
from engine.conformance.questions.questions import QUESTIONS
from engine.conformance.recording import CaseRecorder
from engine.errors import ConfigError
from engine.toolchain.command import Command
from engine.toolchain.tool import Toolchain

FIRST = QUESTIONS[0]
OURS = "from engine.cli.vendor.hb_mapper import main; main()"


def test_a_folder_for_each_with_all_that_its_configurations_name(tmp_path: Path) -> None:
    written = write_questions(QUESTIONS, tmp_path / "asked" / "now")
    assert len(written) == sum(len(each.marches) * len(each.calibrations) for each in QUESTIONS)
    assert len({path.stem for path in written}) == len(written)
    for path in written:
        config = load_config(path)
        assert config.model_parameters.onnx_model == path.parent / "net.onnx"
        data = sorted((path.parent / "cal").iterdir())
        (shape,) = ([dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in _inputs(path))
        assert [np.fromfile(each, np.float32).size for each in data] == [np.prod(shape)] * SAMPLES
    page = (tmp_path / "asked" / "now" / PAGE).read_text("utf-8")
    assert all(f"| `{each.name}` | {each.asks} | {each.meanwhile} |" in page for each in QUESTIONS)


def _inputs(path: Path) -> list[onnx.ValueInfoProto]:
    return list(onnx.load(path.parent / "net.onnx").graph.input)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(ConfigError, match="there: already exists; name another folder"):
        write_questions([FIRST], tmp_path / "there")
    assert list(tmp_path.iterdir()) == [tmp_path / "there"]
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.nightly
def test_an_answer_is_recorded_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own hb_mapper in the place of the original."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
    config = next(path for path in write_questions([FIRST], tmp_path / "asked") if path.stem.endswith("bayes-e_max"))
    (tmp_path / "tool.py").write_text(OURS, encoding="utf-8")
    tool = Command.parse(f"{shlex.quote(sys.executable)} {shlex.quote(str(tmp_path / 'tool.py'))}", "--toolchain")
    CaseRecorder(tool=Toolchain(tool, 120.0), runtime=None, to=tmp_path / "cases", weights=True).record(config)
    (case,) = find_cases(tmp_path / "cases")
    row = measure(case, tmp_path / "work")
    assert case.family == FIRST.name
    assert (row.case, row.converts, row.operators, row.departure) == (config.stem, True, True, None)
