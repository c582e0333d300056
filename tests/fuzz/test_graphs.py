"""Random graphs through all stages, those of a small campaign and those that were once wrong."""

from __future__ import annotations

import logging
from pathlib import Path

import onnx
import pytest

from engine.errors import PtqlabError
from tests.fuzz.graphs import DEEP, LARGE_EVERY, case, main, verify

SEED = 1
CASES = (0, 3, 6)
ONCE_WRONG = (11, 26)
"""Their thresholds depended on the number of threads."""


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("index", [*CASES, *ONCE_WRONG])
def test_a_random_graph_is_the_same_in_all_stages(index: int, tmp_path: Path) -> None:
    verify(case(SEED, index), tmp_path)


def test_a_graph_is_determined_by_its_number() -> None:
    first, again, other = (case(SEED, index).model.SerializeToString() for index in (4, 4, 5))
    assert first == again != other


@pytest.mark.nightly
def test_large_graphs_are_deep_and_wide() -> None:
    deep, wide = case(SEED, LARGE_EVERY // 2).model.graph, case(SEED, LARGE_EVERY - 1).model.graph
    assert len(deep.node) >= DEEP
    first = wide.node[0].output[0]
    assert sum(first in node.input for node in wide.node) >= 500


def test_graphs_have_what_they_are_said_to_have() -> None:
    graphs = [case(SEED, index).model.graph for index in range(40)]
    assert any(len(graph.input) > len({value.name for value in graph.input} - _initializers(graph)) for graph in graphs)
    assert any(not node.name for graph in graphs for node in graph.node)
    assert any("" in node.input for graph in graphs for node in graph.node)
    assert any(len(set(node.input)) < len(node.input) for graph in graphs for node in graph.node)
    assert any(_readers(graph, name) > 1 for graph in graphs for name in _initializers(graph))
    assert any(_readers(graph, value.name) for graph in graphs for value in graph.output)


def _initializers(graph: onnx.GraphProto) -> set[str]:
    return {tensor.name for tensor in graph.initializer}


def _readers(graph: onnx.GraphProto, name: str) -> int:
    return sum(name in node.input for node in graph.node)


def test_the_command_reports(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PtqlabError("node a12 is not for us")

    monkeypatch.setattr("tests.fuzz.graphs.verify", refused)
    try:
        assert main(["--graphs", "2", "--seed", "7", "--first", "3"]) == 0
    finally:
        logging.disable(logging.NOTSET)
    printed = capsys.readouterr().out
    assert "2 refused: node a# is not for us" in printed
    assert "seed 7: graphs 3 to 4, 0 converted, 2 refused, 0 faults" in printed
