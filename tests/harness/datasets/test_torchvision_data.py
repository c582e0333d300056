"""Samples drawn from torchvision's data sets, with a stand-in for the package."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.errors import CalibrationDataError, ConfigError, MissingError
from harness.datasets import Colour, torchvision_data
from tests.harness.datasets.helpers import open_with

ASKED: dict[str, Any] = {"calibration": 5, "evaluation": 3}


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 samples for training, 20 for tests; sample ``i`` holds ``i`` everywhere, those for tests 100 more."""

    def opened(kind: tuple[int, ...], root: str, train: bool, download: bool) -> SimpleNamespace:
        assert not download
        if not Path(root).is_dir():
            raise RuntimeError("Dataset not found")
        numbers = np.arange(30) if train else np.arange(100, 120)
        data = np.broadcast_to(numbers.reshape(-1, *[1] * len(kind)), (len(numbers), *kind))
        return SimpleNamespace(data=data.astype(np.uint8), targets=(numbers % 10).tolist())

    def kind(*shape: int) -> Any:
        return lambda root, train, download: opened(shape, root, train, download)

    datasets = SimpleNamespace(MNIST=kind(28, 28), CIFAR10=kind(32, 32, 3))
    monkeypatch.setattr(torchvision_data, "import_torchvision", lambda: SimpleNamespace(datasets=datasets))


def test_samples_are_drawn_by_seed_in_the_order_of_their_part(tmp_path: Path) -> None:
    data = open_with("torchvision", dataset="MNIST", root=tmp_path, seed=7, **ASKED)
    for name, count, total, first in (("calibration", 5, 30, 0), ("evaluation", 3, 20, 100)):
        expected = sorted(np.random.RandomState(7).choice(total, count, replace=False) + first)
        assert data.split(name).images()[:, 0, 0, 0].tolist() == expected
        assert data.split(name).targets().tolist() == [number % 10 for number in expected]


def test_formats_are_torchvisions(tmp_path: Path) -> None:
    gray = open_with("torchvision", dataset="MNIST", root=tmp_path, **ASKED).image_format
    colour = open_with("torchvision", dataset="CIFAR10", root=tmp_path, **ASKED).image_format
    assert (gray.shape, gray.colour) == ((28, 28, 1), Colour.GRAY)
    assert (colour.shape, colour.colour) == ((32, 32, 3), Colour.RGB)


def test_the_digest_follows_the_samples_and_not_the_place(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first, moved, drawn = (
        open_with("torchvision", dataset="MNIST", root=root, seed=seed, **ASKED).digest
        for root, seed in ((tmp_path, 1), (tmp_path / "other", 1), (tmp_path, 2))
    )
    assert first == moved != drawn


def test_no_more_samples_than_there_are(tmp_path: Path) -> None:
    assert len(open_with("torchvision", dataset="MNIST", root=tmp_path, calibration=30, evaluation=20).splits) == 2
    with pytest.raises(ConfigError, match="torchvision MNIST: evaluation: 21 requested, but there are 20"):
        open_with("torchvision", dataset="MNIST", root=tmp_path, calibration=30, evaluation=21)


def test_absent_data_and_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CalibrationDataError, match=r"torchvision finds no MNIST there \(Dataset not found\)"):
        open_with("torchvision", dataset="MNIST", root=tmp_path / "nowhere")

    def absent() -> None:
        raise ImportError("no torch")

    monkeypatch.setattr(torchvision_data, "import_torchvision", absent)
    with pytest.raises(MissingError, match=r"no torch.*pip install 'torch=="):
        open_with("torchvision", dataset="MNIST", root=tmp_path)
