"""Detectors with prior boxes, by the number of positions of published networks and the operators at their end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf, sqrt
from typing import Any

from harness.metrics.decoders import PYRAMID_STRIDES, BoxDecoder, pyramid_grids
from harness.metrics.priors import PriorLayout, PriorScores
from harness.onboarding.detector_heads import detector, shapes_of
from harness.onboarding.head_guess import HeadGuess
from harness.onboarding.network_file import NetworkOutputs, OutputTensor
from harness.terms import Fit

_NINE = 9
"""Priors per cell of RetinaNet and EfficientDet: three sizes of three proportions."""
_RATIOS = (0.5, 1.0, 2.0)
_THIRDS = tuple(2 ** (third / 3) for third in range(3))
_IMAGENET = "ImageNet mean and deviation"
Sizes = list[list[float]]


def _levels(grids: Sequence[tuple[int, int]], strides: Sequence[float], sizes: Sequence[Sizes]) -> list[dict[str, Any]]:
    return [
        {"grid": list(grid), "stride": stride, "sizes": [[round(side, 4) for side in each] for each in listed]}
        for grid, stride, listed in zip(grids, strides, sizes, strict=True)
    ]


def torchvision_retinanet(size: tuple[int, int]) -> list[dict[str, Any]]:
    """``_default_anchorgen`` of torchvision's ``retinanet.py``: proportion by proportion, whole pixels."""
    sizes = []
    for base in (4 * stride for stride in PYRAMID_STRIDES):
        sides = [int(base * growth) for growth in _THIRDS]
        pairs = [(side / sqrt(ratio), side * sqrt(ratio)) for ratio in _RATIOS for side in sides]
        sizes.append([[2.0 * round(width / 2), 2.0 * round(height / 2)] for width, height in pairs])
    return _levels(pyramid_grids(size), PYRAMID_STRIDES, sizes)


def detectron_retinanet(size: tuple[int, int]) -> list[dict[str, Any]]:
    """``Base-RetinaNet.yaml`` of Detectron2: size by size."""
    sizes = [
        [[4 * stride * side / sqrt(ratio), 4 * stride * side * sqrt(ratio)] for side in _THIRDS for ratio in _RATIOS]
        for stride in PYRAMID_STRIDES
    ]
    return _levels(pyramid_grids(size), PYRAMID_STRIDES, sizes)


def efficientdet(size: tuple[int, int]) -> list[dict[str, Any]]:
    """``anchors.py`` of google/automl: proportions 1:1, 1.4:0.7 and 0.7:1.4."""
    sizes = [
        [[4 * stride * side * wide, 4 * stride * side * high] for side in _THIRDS for wide, high in _PROPORTIONS]
        for stride in PYRAMID_STRIDES
    ]
    return _levels(pyramid_grids(size), PYRAMID_STRIDES, sizes)


_PROPORTIONS = ((1.0, 1.0), (1.4, 0.7), (0.7, 1.4))


def _ssd_sizes(smallest: float, largest: float, ratios: Sequence[int], limit: float = inf) -> Sizes:
    """Squares of the smallest side and of the mean with the next, then both proportions of each ratio, to ``limit``."""
    squares = [smallest, *([sqrt(smallest * largest)] if largest else [])]
    found = [[side, side] for side in squares]
    for ratio in ratios:
        long, short = smallest * sqrt(ratio), smallest / sqrt(ratio)
        found += [[long, short], [short, long]]
    return [[min(side, limit) for side in each] for each in found]


def ssd300(smallest: Sequence[float]) -> list[dict[str, Any]]:
    """SSD300 on VGG-16 (Liu et al.; torchvision's ``ssd300_vgg16``), 8732 priors."""
    ratios = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
    sizes = [_ssd_sizes(*each, limit=300) for each in zip(smallest, (*smallest[1:], 315.0), ratios, strict=True)]
    return _levels([(side, side) for side in (38, 19, 10, 5, 3, 1)], (8, 16, 32, 64, 100, 300), sizes)


def ssdlite320() -> list[dict[str, Any]]:
    """torchvision's ``ssdlite320_mobilenet_v3_large``, 3234 priors: sides 0.2 to 0.95 of the image."""
    sides = [320 * (0.2 + (0.95 - 0.2) * level / 5) for level in range(6)] + [320.0]
    sizes = [_ssd_sizes(small, large, (2, 3), 320) for small, large in pairwise(sides)]
    grids = (20, 10, 5, 3, 2, 1)
    return _levels([(side, side) for side in grids], [round(320 / side, 6) for side in grids], sizes)


def ssdlite300() -> list[dict[str, Any]]:
    """``mobilenetv1_ssd_config`` of qfgaohao/pytorch-ssd, 3000 priors."""
    sides = (60, 105, 150, 195, 240, 285, 330)
    sizes = [_ssd_sizes(small, large, (2, 3), 300) for small, large in pairwise(sides)]
    return _levels([(side, side) for side in (19, 10, 5, 3, 2, 1)], (16, 32, 64, 100, 150, 300), sizes)


def mobilenet_ssd() -> list[dict[str, Any]]:
    """chuanqi305/MobileNet-SSD, 1917 priors: three in each cell of the first map."""
    sides = (60, 105, 150, 195, 240, 285, 300)
    later = [_ssd_sizes(small, large, (2, 3)) for small, large in pairwise(sides[1:])]
    grids = (19, 10, 5, 3, 2, 1)
    strides = [round(300 / side, 6) for side in grids]
    return _levels([(side, side) for side in grids], strides, [_ssd_sizes(60, 0, (2,)), *later])


_VOC_SIDES = (30.0, 60.0, 111.0, 162.0, 213.0, 264.0)
_COCO_SIDES = (21.0, 45.0, 99.0, 153.0, 207.0, 261.0)
_VOC_CLASSES = 20


def _ssd_of(size: tuple[int, int], positions: int, classes: int) -> tuple[str, list[dict[str, Any]]] | None:
    """The published SSD with this number of positions, and its priors."""
    match size, positions:
        case (300, 300), 8732:
            is_voc = classes == _VOC_CLASSES
            name = f"SSD300 on {'PASCAL VOC' if is_voc else 'COCO'}"
            return name, ssd300(_VOC_SIDES if is_voc else _COCO_SIDES)
        case (300, 300), 3000:
            return "SSD of pytorch-ssd", ssdlite300()
        case (300, 300), 1917:
            return "MobileNet-SSD", mobilenet_ssd()
        case (320, 320), 3234:
            return "SSDLite of torchvision", ssdlite320()
    return None


_SSD_USUAL = {"SSD300 on PASCAL VOC": "Caffe mean", "SSD300 on COCO": "Caffe mean"}
"""The others are trained on -1..1."""


def prior_tables(network: NetworkOutputs) -> HeadGuess | None:
    """Class values and box values of all priors in one table each, in either order, and maybe the priors."""
    shapes = shapes_of(network)
    tables = [shape for shape in shapes if len(shape) == 2]
    if len(shapes) not in (2, 3) or len(tables) != 2 or len({rows for rows, _ in tables}) > 1:
        return None
    if 4 not in (depths := [depth for _, depth in tables]):
        return None
    numbers = [index for index, shape in enumerate(shapes) if len(shape) == 2]
    boxes = numbers[depths.index(4)] if depths != [4, 4] else numbers[-1]
    scores = next(number for number in numbers if number != boxes)
    positions, depth = shapes[scores]
    own = network.outputs[next(n for n in range(3) if n not in numbers)] if len(shapes) == 3 else None
    if not _is_raw(network.outputs[boxes]) or depth < 2:
        return None
    if own is not None:
        if own.shape != (positions, 4):
            return None
        options = {"output": network.outputs.index(own), "boxes": [boxes]}
        return _ssd("SSD with its priors", network, depth - 1, scores, options, "the priors are an output")
    if positions == _NINE * sum(rows * columns for rows, columns in pyramid_grids(network.size)):
        return _pyramid(network, depth, [scores], [boxes], PriorLayout.ROWS)
    if (found := _ssd_of(network.size, positions, depth - 1)) is None:
        return None
    name, levels = found
    return _ssd(name, network, depth - 1, scores, {"levels": levels, "boxes": [boxes]}, f"{positions} priors")


def _ssd(
    kind: str, network: NetworkOutputs, classes: int, scores: int, options: Mapping[str, Any], why: str
) -> HeadGuess:
    has_softmax = "Softmax" in network.outputs[scores].tail
    given = {
        **options,
        "scores": (PriorScores.PROBABILITIES if has_softmax else PriorScores.SOFTMAX).value,
        "has_background": True,
        "variances": [0.1, 0.1, 0.2, 0.2],
    }
    reason = f"{why}; {classes} classes and a background"
    usual = _SSD_USUAL.get(kind, "-1..1")
    return detector(kind, classes, network, {"priors": given}, reason, Fit.STRETCH, usual, is_sure=False)


def prior_maps(network: NetworkOutputs) -> HeadGuess | None:
    """A map of class values and a map of box values for each of five levels."""
    shapes = shapes_of(network)
    if len(shapes) != 2 * len(PYRAMID_STRIDES) or any(len(shape) != 3 for shape in shapes):
        return None
    grids = pyramid_grids(network.size)
    for layout, channels, first in ((PriorLayout.NCHW, 0, 1), (PriorLayout.NHWC, 2, 0)):
        boxes = [number for number, shape in enumerate(shapes) if shape[channels] == 4 * _NINE]
        scores = [number for number in range(len(shapes)) if number not in boxes]
        depths = {shapes[number][channels] for number in scores}
        if len(boxes) != len(grids) or len(depths) != 1 or (depth := depths.pop()) % _NINE:
            continue
        if all([shapes[n][first : first + 2] for n in numbers] == grids for numbers in (boxes, scores)):
            return _pyramid(network, depth // _NINE, scores, boxes, layout)
    return None


def _pyramid(
    network: NetworkOutputs, classes: int, scores: Sequence[int], boxes: Sequence[int], layout: PriorLayout
) -> HeadGuess:
    """RetinaNet, or EfficientDet where the last layers are separable convolutions."""
    ready = "Sigmoid" in network.outputs[scores[0]].tail
    given: dict[str, Any] = {
        "boxes": list(boxes),
        "layout": layout.value,
        "scores": (PriorScores.PROBABILITIES if ready else PriorScores.SIGMOID).value,
    }
    form = "two tables" if layout is PriorLayout.ROWS else "ten maps"
    if network.outputs[boxes[0]].is_separable:
        kind, given = "EfficientDet", {**given, "levels": efficientdet(network.size), "rows_first": True}
    elif layout is PriorLayout.ROWS:
        kind, given = "RetinaNet (torchvision)", {**given, "levels": torchvision_retinanet(network.size), "centre": 0.0}
    else:
        kind, given = "RetinaNet (Detectron2)", {**given, "levels": detectron_retinanet(network.size), "centre": 0.0}
    reason = f"{form} of {classes} classes and of boxes, 9 priors per cell at strides 8 to 128"
    return detector(kind, classes, network, {"priors": given}, reason, Fit.PAD, _IMAGENET, is_sure=False)


def _is_raw(output: OutputTensor) -> bool:
    """Whether nothing is computed behind the last layer that learns: values are only moved."""
    return set(output.tail) <= _MOVES


_MOVES = frozenset(
    ("Cast", "Concat", "Constant", "Flatten", "Gather", "Identity", "Reshape", "Shape", "Slice", "Squeeze",
     "Transpose", "Unsqueeze")
)  # fmt: skip


def points_of_pyramid(network: NetworkOutputs) -> HeadGuess | None:
    """FCOS: classes, distances to the sides and centreness of each cell of five maps."""
    shapes = shapes_of(network)
    positions = sum(rows * columns for rows, columns in pyramid_grids(network.size))
    if len(shapes) != 3 or [shape[:1] for shape in shapes] != [(positions,)] * 3:
        return None
    if any(len(shape) != 2 for shape in shapes) or [shape[1] for shape in shapes[1:]] != [4, 1]:
        return None
    classes = shapes[0][1]
    reason = f"three tables of {classes} classes, of distances and of centreness at {positions} cells"
    options = {"decoder": BoxDecoder.FCOS.value}
    return detector("FCOS", classes, network, options, reason, Fit.PAD, _IMAGENET)


def boxes_and_scores(network: NetworkOutputs) -> HeadGuess | None:
    """Boxes of pytorch-YOLOv4, decoded, and class scores."""
    shapes = shapes_of(network)
    if len(shapes) != 2 or [len(shape) for shape in shapes] != [3, 2] or shapes[0][1:] != (1, 4):
        return None
    if shapes[0][0] != shapes[1][0]:
        return None
    positions, classes = shapes[1]
    reason = f"outputs {positions}x1x4 and {positions}x{classes}: boxes, and scores of {classes} classes"
    options = {"decoder": BoxDecoder.YOLOV4.value}
    return detector("YOLOv4", classes, network, options, reason, Fit.STRETCH, "0..1")
