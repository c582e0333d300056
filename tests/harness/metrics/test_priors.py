"""Boxes relative to priors: beside torchvision's own decoding, and restated box by box where it has none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.errors import ConfigError
from harness.datasets.torchvision_import import import_torchvision
from harness.metrics import open_metric
from harness.metrics.decoders import PYRAMID_STRIDES, BoxDecoder, decode_boxes, pyramid_grids
from harness.metrics.detection import Map50Options, decode_heads
from harness.metrics.priors import PriorLayout, PriorOptions, decode_priors
from harness.onboarding import prior_heads

CLASSES = 3


def made(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def torchvision_detection() -> Any:
    """``torchvision.models.detection``."""
    pytest.importorskip("torch", reason="torch is not installed")
    try:
        import_torchvision()
    except ImportError as error:
        pytest.skip(f"torchvision cannot be imported: {error}")
    import torchvision.models.detection as detection

    return detection


def anchors_of(generator: Any, size: tuple[int, int], grids: Sequence[tuple[int, int]]) -> Any:
    """Corners of the priors, as ``generator`` of torchvision has them for one image."""
    import torch
    from torchvision.models.detection.image_list import ImageList

    (found,) = generator(ImageList(torch.zeros(1, 3, *size), [size]), [torch.zeros(1, 1, *grid) for grid in grids])
    return found


def torchvision_boxes(coder: Any, values: np.ndarray, anchors: Any, size: tuple[int, int]) -> np.ndarray:
    import torch
    from torchvision.ops.boxes import clip_boxes_to_image

    decode = getattr(coder, "decode_single", None) or coder.decode
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # in a process of many tests, exp on torch's second thread was once off by 1e-4
    try:
        boxes: np.ndarray = clip_boxes_to_image(decode(torch.from_numpy(values), anchors), size).numpy()
    finally:
        torch.set_num_threads(threads)
    return boxes


def compared(levels: list[dict[str, Any]], coder: Any, generator: Any, size: tuple[int, int], **options: Any) -> None:
    """Decode random outputs with both, and compare."""
    import torch

    given = PriorOptions.model_validate({"levels": levels, "boxes": [0], **options})
    count = sum(level.count for level in given.levels)
    values, classes = made(1, count, 4), made(1, count, CLASSES + given.has_background, seed=1)
    boxes, scores = decode_priors([values, classes], given, CLASSES, size)
    anchors = anchors_of(generator, size, [level.grid for level in given.levels])
    np.testing.assert_allclose(boxes[0], torchvision_boxes(coder, values[0], anchors, size), rtol=1e-4, atol=2e-3)
    logits = torch.from_numpy(classes[0])
    wanted = logits.softmax(-1)[:, 1:] if given.has_background else logits.sigmoid()
    np.testing.assert_allclose(scores[0], wanted.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.nightly
def test_ssd300_is_torchvisions() -> None:
    model = torchvision_detection().ssd300_vgg16(weights=None, weights_backbone=None)
    levels = prior_heads.ssd300((21.0, 45.0, 99.0, 153.0, 207.0, 261.0))
    options = {"scores": "softmax", "has_background": True, "variances": [0.1, 0.1, 0.2, 0.2]}
    compared(levels, model.box_coder, model.anchor_generator, (300, 300), **options)


def test_ssdlite320_is_torchvisions() -> None:
    model = torchvision_detection().ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)
    options = {"scores": "softmax", "has_background": True, "variances": [0.1, 0.1, 0.2, 0.2]}
    compared(prior_heads.ssdlite320(), model.box_coder, model.anchor_generator, (320, 320), **options)


def test_retinanet_is_torchvisions() -> None:
    retinanet = torchvision_detection().retinanet
    from torchvision.models.detection._utils import BoxCoder

    size = (256, 384)
    levels, coder = prior_heads.torchvision_retinanet(size), BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
    compared(levels, coder, retinanet._default_anchorgen(), size, centre=0.0)


def test_fcos_is_torchvisions() -> None:
    detection = torchvision_detection()
    import torch
    from torchvision.models.detection._utils import BoxLinearCoder
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    assert hasattr(detection, "fcos_resnet50_fpn")
    size = (256, 384)
    grids = pyramid_grids(size)
    count = sum(rows * columns for rows, columns in grids)
    logits, sides, centreness = made(1, count, CLASSES), np.abs(made(1, count, 4, seed=1)), made(1, count, 1, seed=2)
    boxes, scores = decode_boxes(BoxDecoder.FCOS, [logits, sides, centreness], CLASSES, size)
    generator = AnchorGenerator(((8,), (16,), (32,), (64,), (128,)), ((1.0,),) * 5)  # as in torchvision's FCOS
    anchors = anchors_of(generator, size, grids)
    coder = BoxLinearCoder(normalize_by_size=True)
    np.testing.assert_allclose(boxes[0], torchvision_boxes(coder, sides[0], anchors, size), rtol=1e-5, atol=1e-3)
    wanted = torch.sqrt(torch.from_numpy(logits[0]).sigmoid() * torch.from_numpy(centreness[0]).sigmoid())
    np.testing.assert_allclose(scores[0], wanted.numpy(), rtol=1e-5)


def greedy_nms(boxes: Any, scores: Any, threshold: float) -> Any:
    """``torchvision::nms`` restated: the best box stays, what overlaps it more than ``threshold`` goes, and so on."""
    import torch

    left, kept = scores.argsort(descending=True, stable=True).tolist(), []
    areas = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).tolist()
    rows = boxes.tolist()
    while left:
        best, *others = left
        kept.append(best)
        left = []
        for other in others:
            wide = min(rows[best][2], rows[other][2]) - max(rows[best][0], rows[other][0])
            high = min(rows[best][3], rows[other][3]) - max(rows[best][1], rows[other][1])
            shared = max(wide, 0) * max(high, 0)
            if shared <= threshold * (areas[best] + areas[other] - shared):
                left.append(other)
    return torch.tensor(kept, dtype=torch.int64)


@pytest.fixture
def detection(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``torchvision.models.detection`` with suppression, also where torchvision's compiled operators do not load."""
    module = torchvision_detection()
    from torchvision.extension import _has_ops

    if not _has_ops():
        monkeypatch.setattr("torchvision.ops.boxes.nms", greedy_nms)
    return module


def found_by_torchvision(kind: Any, outputs: dict[str, Any], anchors: Any, size: tuple[int, int], coder: Any) -> Any:
    """What ``postprocess_detections`` of a torchvision network makes of its head's outputs for one image."""
    network = SimpleNamespace(
        score_thresh=0.6, topk_candidates=1000, nms_thresh=0.5, detections_per_img=50, box_coder=coder
    )
    (found,) = kind.postprocess_detections(network, outputs, anchors, [size])
    return {name: values.numpy() for name, values in found.items()}


def likely_logits(count: int, depth: int) -> np.ndarray:
    """Every third prior is likely to be one class; the others are none, so that no prior has two classes."""
    logits, random, likely = np.zeros((1, count, depth), np.float32), np.random.default_rng(2), np.arange(0, count, 3)
    ranks = random.permutation(len(likely)) / len(likely)
    logits[0, likely, random.integers(depth - CLASSES, depth, len(likely))] = 2 + 4 * ranks
    return logits


def test_detections_are_those_of_torchvisions_retinanet(detection: Any) -> None:
    import torch
    from torchvision.models.detection._utils import BoxCoder

    size, levels = (128, 128), prior_heads.torchvision_retinanet((128, 128))
    options = {"levels": levels, "boxes": [0], "centre": 0.0}
    counts = [level.count for level in PriorOptions.model_validate(options).levels]
    values, logits = made(1, sum(counts), 4) / 4, likely_logits(sum(counts), CLASSES)
    anchors = anchors_of(detection.retinanet._default_anchorgen(), size, pyramid_grids(size))
    outputs = {
        "cls_logits": list(torch.from_numpy(logits).split(counts, dim=1)),
        "bbox_regression": list(torch.from_numpy(values).split(counts, dim=1)),
    }
    coder = BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
    wanted = found_by_torchvision(detection.RetinaNet, outputs, [anchors.split(counts)], size, coder)
    check_detections([values, logits], options, size, wanted)


def test_detections_are_those_of_torchvisions_ssd(detection: Any) -> None:
    import torch
    from torchvision.models.detection._utils import BoxCoder
    from torchvision.models.detection.anchor_utils import DefaultBoxGenerator

    size, levels = (320, 320), prior_heads.ssdlite320()
    options = {"levels": levels, "boxes": [0], "scores": "softmax", "has_background": True}
    options["variances"] = [0.1, 0.1, 0.2, 0.2]
    given = PriorOptions.model_validate(options)
    count = sum(level.count for level in given.levels)
    values, logits = made(1, count, 4), likely_logits(count, CLASSES + 1)
    generator = DefaultBoxGenerator([[2, 3] for _ in range(6)], min_ratio=0.2, max_ratio=0.95)
    anchors = anchors_of(generator, size, [level.grid for level in given.levels])
    outputs = {"cls_logits": torch.from_numpy(logits), "bbox_regression": torch.from_numpy(values)}
    coder = BoxCoder(weights=(10.0, 10.0, 5.0, 5.0))
    wanted = found_by_torchvision(detection.ssd.SSD, outputs, [anchors], size, coder)
    wanted["labels"] = wanted["labels"] - 1  # torchvision counts the background
    check_detections([values, logits], options, size, wanted)


def check_detections(outputs: list[np.ndarray], priors: dict[str, Any], size: tuple[int, int], wanted: Any) -> None:
    """Compare boxes, scores and classes behind suppression with those of torchvision."""
    options = Map50Options.model_validate(
        {"classes": CLASSES, "size": list(size), "priors": priors, "score_threshold": 0.6, "max_detections": 50}
    )
    (found,) = decode_heads(outputs, options)
    assert 5 < len(wanted["scores"]) <= 50
    np.testing.assert_array_equal(found.classes, wanted["labels"])
    np.testing.assert_allclose(found.scores, wanted["scores"], rtol=1e-5)
    np.testing.assert_allclose(found.boxes, wanted["boxes"], rtol=1e-4, atol=2e-3)


def test_maps_of_retinanet_as_detectron2_decodes() -> None:
    """detectron2/modeling/anchor_generator.py (generate_cell_anchors, offset 0), box_regression.py, retinanet.py."""
    size = (128, 256)
    grids = pyramid_grids(size)
    classes = [made(1, 9 * CLASSES, *grid, seed=number) for number, grid in enumerate(grids)]
    values = [made(1, 36, *grid, seed=9 + number) for number, grid in enumerate(grids)]
    given = {"levels": prior_heads.detectron_retinanet(size), "boxes": [5, 6, 7, 8, 9], "layout": "nchw", "centre": 0.0}
    boxes, scores = decode_priors([*classes, *values], PriorOptions.model_validate(given), CLASSES, size)
    index = 0
    for stride, (rows, columns), level_classes, level_values in zip(
        PYRAMID_STRIDES, grids, classes, values, strict=True
    ):
        for row in range(rows):
            for column in range(columns):
                for anchor in range(9):
                    side, ratio = 4 * stride * 2 ** (anchor // 3 / 3), (0.5, 1.0, 2.0)[anchor % 3]
                    width = math.sqrt(side**2 / ratio)
                    height = ratio * width
                    dx, dy, dw, dh = level_values[0, 4 * anchor : 4 * anchor + 4, row, column].astype(float)
                    x, y = column * stride + dx * width, row * stride + dy * height
                    w, h = width * math.exp(dw), height * math.exp(dh)
                    wanted = np.clip([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 0, [256, 128, 256, 128])
                    np.testing.assert_allclose(boxes[0, index], wanted, rtol=1e-4, atol=1e-2)
                    logits = level_classes[0, CLASSES * anchor : CLASSES * anchor + CLASSES, row, column]
                    np.testing.assert_allclose(scores[0, index], 1 / (1 + np.exp(-logits)), rtol=1e-5)
                    index += 1
    assert index == boxes.shape[1]


def test_efficientdet_as_google_decodes_it() -> None:
    """automl/efficientdet/tf2/anchors.py: _generate_boxes (middle of the cell, octave, aspect), decode_box_outputs."""
    size = (128, 128)
    grids = pyramid_grids(size)
    classes = [made(1, *grid, 9 * CLASSES, seed=number) for number, grid in enumerate(grids)]
    values = [made(1, *grid, 36, seed=9 + number) for number, grid in enumerate(grids)]
    given = {
        "levels": prior_heads.efficientdet(size),
        "boxes": [5, 6, 7, 8, 9],
        "layout": "nhwc",
        "rows_first": True,
    }
    boxes, _ = decode_priors([*classes, *values], PriorOptions.model_validate(given), CLASSES, size)
    index = 0
    for stride, (rows, columns), level in zip(PYRAMID_STRIDES, grids, values, strict=True):
        for row in range(rows):
            for column in range(columns):
                for anchor in range(9):
                    wide, high = ((1.0, 1.0), (1.4, 0.7), (0.7, 1.4))[anchor % 3]
                    side = 4 * stride * 2 ** (anchor // 3 / 3)
                    ty, tx, th, tw = level[0, row, column, 4 * anchor : 4 * anchor + 4].astype(float)
                    y, x = ty * side * high + (row + 0.5) * stride, tx * side * wide + (column + 0.5) * stride
                    h, w = math.exp(th) * side * high, math.exp(tw) * side * wide
                    wanted = np.clip([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 0, 128)
                    np.testing.assert_allclose(boxes[0, index], wanted, rtol=1e-4, atol=1e-2)
                    index += 1
    assert index == boxes.shape[1]


def test_priors_of_an_output_as_ssd_pytorch_decodes() -> None:
    """ssd.pytorch/layers/box_utils.py, decode: priors are centre and size in 0..1, variances 0.1 and 0.2."""
    priors = np.random.default_rng(0).uniform(0.2, 0.5, (1, 20, 4)).astype(np.float32)
    values, classes = made(1, 20, 4), made(1, 20, CLASSES + 1, seed=1)
    given = PriorOptions.model_validate(
        {"output": 2, "boxes": [0], "scores": "softmax", "has_background": True, "variances": [0.1, 0.1, 0.2, 0.2]}
    )
    boxes, _ = decode_priors([values, classes, priors], given, CLASSES, (60, 80))
    (x, y, w, h), (dx, dy, dw, dh) = priors[0, 7].astype(float), values[0, 7].astype(float)
    x, y, w, h = x + 0.1 * dx * w, y + 0.1 * dy * h, w * math.exp(0.2 * dw), h * math.exp(0.2 * dh)
    wanted = np.clip([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 0, 1) * [80, 60, 80, 60]
    np.testing.assert_allclose(boxes[0, 7], wanted, rtol=1e-4, atol=1e-3)


LEVEL = {"grid": [2, 2], "stride": 8, "sizes": [[8, 8]]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "priors need either levels: or output:"),
        ({"levels": [LEVEL], "output": 2}, "priors need either levels: or output:"),
        ({"levels": [LEVEL], "boxes": [1, 2], "layout": "nchw"}, "boxes: lists 2 outputs, levels: has 1"),
        ({"levels": [LEVEL], "boxes": [2]}, r"must be different outputs, 0 to 1"),
        ({"output": 1, "boxes": [1]}, r"must be different outputs, 0 to 2"),
    ],
)
def test_options_that_do_not_fit_each_other(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_metric("map50", {"classes": 3, "size": [16, 16], "priors": options})


def test_the_metric_scores_outputs_with_priors() -> None:
    """A box on the second prior, of class 1: found where the target is, and a part of each output."""
    from harness.datasets import SceneTarget

    metric = open_metric("map50", {"classes": 2, "size": [16, 16], "priors": {"levels": [LEVEL]}})
    classes, values = np.full((1, 4, 2), -9, np.float32), np.zeros((1, 4, 4), np.float32)
    classes[0, 1, 1] = 9
    target = SceneTarget(np.array([[8, 0, 16, 8]], np.float32), np.array([1]), np.zeros((16, 16), np.uint8))
    assert metric.score([classes, values], [target]).value == 1
    assert {name: part[0].shape for name, part in metric.parts([classes, values]).items()} == {
        "boxes": (1, 4, 4),
        "classes": (1, 4, 2),
    }
    assert PriorOptions.model_validate({"levels": [LEVEL], "layout": PriorLayout.NHWC}).shapes(2) == [
        (2, 2, 2),
        (2, 2, 4),
    ]
    with pytest.raises(ConfigError, match="outputs have either heads: or priors:"):
        open_metric(
            "map50", {"classes": 2, "heads": [{"stride": 8, "anchors": [[8, 8]]}], "priors": {"levels": [LEVEL]}}
        )
    with pytest.raises(ConfigError, match=r"priors need size: \[height, width\]"):
        open_metric("map50", {"classes": 2, "priors": {"levels": [LEVEL]}})
