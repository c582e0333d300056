"""Networks with large outputs: weights, operators and maps."""

from __future__ import annotations

from benchmarks.speed.structures.dense import text_detector, unet, yolov8n
from tests.benchmarks.speed.structures.shapes import operators, outputs, parameters


def test_yolov8n() -> None:
    """Of 63 convolutions the last 6 have no activation; the outputs are boxes and classes of three sizes."""
    model = yolov8n()
    assert parameters(model) == 3_151_896
    found = operators(model)
    assert (found["Conv"], found["Sigmoid"], found["Concat"], found["Split"], found["Add"]) == (63, 57, 13, 8, 6)
    assert (found["MaxPool"], found["Resize"]) == (3, 2)
    assert outputs(model) == [[1, depth, side, side] for side in (40, 20, 10) for depth in (64, 80)]


def test_unet() -> None:
    model = unet()
    levels = [(3, 32), (32, 64), (64, 128), (128, 256), (256, 512), (512, 256), (256, 128), (128, 64), (64, 32)]
    double = sum(9 * (a * b + b * b) + 2 * b for a, b in levels)
    upward = sum(4 * a * b + b for a, b in ((512, 256), (256, 128), (128, 64), (64, 32)))
    assert parameters(model) == double + upward + 32 * 21 + 21
    assert operators(model) == {"Conv": 19, "Relu": 18, "MaxPool": 4, "ConvTranspose": 4, "Concat": 4}
    assert outputs(model) == [[1, 21, 256, 256]]


def test_text_detector() -> None:
    model = text_detector()
    found = operators(model)
    assert (found["Conv"], found["HardSigmoid"], found["Resize"], found["ConvTranspose"]) == (54, 19, 6, 2)
    assert (found["GlobalAveragePool"], found["Concat"], found["Sigmoid"], found["Add"]) == (6, 1, 1, 9)
    assert outputs(model) == [[1, 1, 320, 320]]
