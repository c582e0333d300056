"""torchvision's models, data sets and transforms work beside a CPU build of torch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs the extra zoo")


def test_models_and_datasets() -> None:
    from harness.datasets.torchvision_import import import_torchvision

    try:
        torchvision = import_torchvision()
    except ImportError as error:
        pytest.skip(f"needs the extra zoo: {error}")
    network = torchvision.models.squeezenet1_1(weights=None, num_classes=7).eval()
    with torch.no_grad():
        assert network(torch.zeros(1, 3, 64, 64)).shape == (1, 7)
    assert torchvision.datasets.FashionMNIST is not None
    assert import_torchvision() is torchvision
