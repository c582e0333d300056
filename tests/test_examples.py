"""The examples run and say what they promise; the notebooks run from end to end."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import nbclient
import nbformat
import pytest

from harness import Dataset
from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"
SCRIPTS = ("compare_marches", "convert_and_run", "find_bad_nodes", "own_metric_and_data", "sweep_and_choose")
NOTEBOOKS = ("look_at_integers", "read_a_sweep")


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ModuleType:
    """The script that the test's parameter names."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for name in SCRIPTS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(request.param)


def test_every_example_is_tried_here() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted(SCRIPTS)
    assert sorted(path.stem for path in EXAMPLES.glob("*.ipynb")) == sorted(NOTEBOOKS)


@pytest.mark.parametrize("example", ["compare_marches"], indirect=True)
def test_marches_are_compared(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(example.main(ROOT / "suites" / "zoo" / "mnist_lenet.onnx")) == {"bernoulli2", "bayes", "bayes-e"}
    assert capsys.readouterr().out.count(" ms on the BPU; on the CPU: ") == 3


@pytest.mark.parametrize("example", ["find_bad_nodes"], indirect=True)
def test_a_network_is_converted_scored_and_debugged(example: ModuleType, tmp_path: Path) -> None:
    """Through ``convert_and_run``, which it begins with."""
    found = example.main(tmp_path)
    assert len(found) == 7
    cosines = [float(row["cosine-similarity"]) for row in found.values()]
    assert cosines == sorted(cosines)
    assert sys.modules["convert_and_run"].main(tmp_path / "again") >= 0.97


@pytest.mark.parametrize("example", ["own_metric_and_data"], indirect=True)
def test_metric_and_data_of_ones_own_are_what_cards_can_name(example: ModuleType) -> None:
    assert 0.85 < example.main() < 0.95
    assert isinstance(example.Gradients(example.Options(seed=1)), Dataset)
    assert example.Gradients(example.Options(seed=1)).digest != example.Gradients(example.Options()).digest


@pytest.mark.nightly
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_run(name: str) -> None:
    """``read_a_sweep`` runs ``sweep_and_choose`` on the way."""
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), "notebooks are kept without outputs"
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    text = str(notebook.cells)
    assert {"look_at_integers": "of 200 right", "read_a_sweep": "best: mnist_lenet"}[name] in text
