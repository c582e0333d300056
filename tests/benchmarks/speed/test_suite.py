"""Which networks ``ptqlab bench zoo`` measures."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from benchmarks.speed.structures import STRUCTURES
from benchmarks.speed.suite import EXTERNAL, SuitePart, suite, suite_names


@pytest.fixture
def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A measured reference with two networks, and no external models."""
    folder = tmp_path / "networks" / "nets"
    folder.mkdir(parents=True)
    for name in ("b", "a"):
        (folder / f"{name}.onnx").touch()
    monkeypatch.setenv("PTQLAB_REFERENCE", str(tmp_path))
    monkeypatch.delenv("PTQLAB_MODELS", raising=False)
    return folder


def test_the_suite_is_all_groups(reference: Path, tmp_path: Path) -> None:
    networks = suite(["zoo"])
    of_group = {group: [network.name for network in networks if network.group is group] for group in SuitePart}
    assert of_group[SuitePart.STRUCTURES] == list(STRUCTURES)
    assert {"mnist_lenet", "scene_unet"} <= set(of_group[SuitePart.BUNDLED])
    assert EXTERNAL not in of_group[SuitePart.BUNDLED]
    assert of_group[SuitePart.REFERENCE] == ["a", "b"]
    assert networks[-1].file(tmp_path) == reference / "b.onnx"
    for network in networks:
        if network.group is SuitePart.BUNDLED:
            assert network.file(tmp_path).is_file()


def test_parts_are_asked_for_by_name(reference: Path, tmp_path: Path) -> None:
    assert [network.name for network in suite(["reference"])] == ["a", "b"]
    assert [network.name for network in suite(["resnet_18", "mnist_lenet"])] == ["resnet_18"]
    assert suite(["a"]) == []
    (network,) = suite(["lstm_recogniser"])
    assert onnx.load(network.file(tmp_path)).graph.node


def test_names_that_are_the_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    assert suite_names() >= {"zoo", "bundled", "structures", "reference", "unet"}
    assert "mnist_lenet" not in suite_names()
    monkeypatch.delenv("PTQLAB_REFERENCE", raising=False)
    assert suite(["reference"]) == []


@pytest.mark.reference
def test_the_external_card_is_measured_where_its_file_is(monkeypatch: pytest.MonkeyPatch, reference_dir: Path) -> None:
    models = reference_dir.parent / "models"
    if not (models / "efficientnet_lite0.onnx").is_file():
        pytest.skip("no efficientnet_lite0.onnx: set PTQLAB_DATA and PTQLAB_MODELS")
    monkeypatch.setenv("PTQLAB_MODELS", str(models))
    assert suite(["structures"])[0].name == EXTERNAL
