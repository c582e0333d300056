"""Classifiers have the weights of the published networks, whose normalisation is folded: a bias for two figures."""

from __future__ import annotations

import pytest

from benchmarks.speed.structures.classifiers import mobilenet_v2, mobilenet_v3_small, resnet_18, squeezed
from tests.benchmarks.speed.structures.shapes import operators, outputs, parameters


def test_mobilenet_v2() -> None:
    model = mobilenet_v2()
    assert parameters(model) == 3_504_872 - 34_112 // 2  # torchvision's, half of its normalisations' figures
    assert operators(model) == {"Conv": 52, "Clip": 35, "Add": 10, "GlobalAveragePool": 1, "Flatten": 1, "Gemm": 1}
    assert outputs(model) == [[1, 1000]]


def test_mobilenet_v3_small() -> None:
    model = mobilenet_v3_small()
    assert parameters(model) == 2_542_856 - 12_112 // 2
    assert {name: operators(model)[name] for name in ("Conv", "Relu", "HardSigmoid", "Add")} == {
        "Conv": 54,
        "Relu": 14,  # those of blocks without hard swish, and one in each squeeze
        "HardSigmoid": 28,
        "Add": 6,
    }
    assert outputs(model) == [[1, 1000]]


def test_resnet_18() -> None:
    model = resnet_18()
    assert parameters(model) == 11_689_512 - 9_600 // 2
    assert operators(model)["Conv"] == 20
    assert operators(model)["Add"] == 8
    assert outputs(model) == [[1, 1000]]


@pytest.mark.parametrize(
    ("channels", "expected"), [(16, 8), (48, 16), (96, 24), (120, 32), (144, 40), (240, 64), (72, 24), (76, 24)]
)
def test_a_quarter_is_rounded_to_eights(channels: int, expected: int) -> None:
    """48 gives 12, rounded up; 76 gives 19, of which 16 would be less than nine tenths."""
    assert squeezed(channels) == expected
