"""What recorded conversions cover: operators with ranks, by march; refused networks cover nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from engine.chips.coverage import load_measured
from engine.conformance.coverage import as_yaml, measured
from engine.errors import ConfigError
from tests.engine.conformance.models import write_network

RANK_4 = {"Conv": [4], "GlobalAveragePool": [4], "Relu": [4]}


def write_case(folder: Path, march: str, code: int = 0) -> None:
    """A recorded case that has a network and a result, and nothing else."""
    config = write_network(folder, march)
    config.rename(folder / "config.yaml")
    (folder / "result.json").write_text(json.dumps({"rc": code, "messages": ["ERROR no"] if code else []}))


def test_recorded_networks(tmp_path: Path) -> None:
    write_case(tmp_path / "a", "bayes-e")
    write_case(tmp_path / "b", "bayes", code=255)
    assert measured(tmp_path) == {"bayes-e": RANK_4}


def test_operator_tables_and_golden_conversions(tmp_path: Path) -> None:
    config = write_network(tmp_path / "golden", "bernoulli2")
    shutil.move(tmp_path / "golden" / "net.onnx", tmp_path / "golden" / "net.float.onnx")
    assert config.is_file()
    (tmp_path / "models").mkdir()
    shutil.copy(tmp_path / "golden" / "net.float.onnx", tmp_path / "models" / "m.onnx")
    (tmp_path / "operators.csv").write_text("model,march,quantized_graph\nm.onnx,bayes,HzLut\nm.onnx,bayes-e,\n")
    assert measured(tmp_path) == {"bayes": RANK_4, "bernoulli2": RANK_4}


def test_the_file_can_be_read_back(tmp_path: Path) -> None:
    write_case(tmp_path / "a", "bayes-e")
    assert yaml.safe_load(as_yaml(measured(tmp_path))) == {"bayes-e": RANK_4}


def test_a_folder_without_conversions(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no recorded conversions"):
        measured(tmp_path)


def by_operator(found: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, dict[str, list[int]]]:
    return {march: {operator: list(ranks) for operator, ranks in ops.items()} for march, ops in found.items()}


@pytest.mark.reference
def test_the_bundled_file_has_what_the_golden_conversions_cover(reference_dir: Path) -> None:
    bundled, found = by_operator(load_measured()), by_operator(measured(reference_dir / "golden"))
    assert found
    for march, operators in found.items():
        for operator, ranks in operators.items():
            assert set(ranks) <= set(bundled[march].get(operator, ())), (march, operator)


@pytest.mark.nightly
@pytest.mark.reference
def test_the_bundled_file_is_what_the_reference_covers(reference_dir: Path) -> None:
    """Reads all recorded networks: 35 CPU seconds."""
    found = by_operator(measured(reference_dir))
    remedy = "ptqlab conformance coverage REFERENCE -o engine/chips/coverage/measured.yaml"
    assert by_operator(load_measured()) == found, remedy
