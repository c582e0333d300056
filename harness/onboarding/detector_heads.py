"""Detectors by the number and shapes of their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.metrics.decoders import PICODET_BINS, PICODET_STRIDES, STRIDES, BoxDecoder, rounded_up_grids
from harness.metrics.detection import BoxFormula
from harness.onboarding.exporters import read_exported
from harness.onboarding.head_guess import HeadGuess
from harness.onboarding.network_file import NetworkOutputs
from harness.terms import Fit
from harness.zoo.cards import TaskKind


def detector(
    kind: str,
    classes: int,
    network: NetworkOutputs,
    options: Mapping[str, Any],
    reason: str,
    fit: Fit = Fit.PAD,
    usual: str = "0..1",
    **more: Any,
) -> HeadGuess:
    """A detector that is scored by ``map50`` with ``options`` beside its classes and size."""
    given = {"classes": classes, "size": list(network.size), **options}
    task = TaskKind.DETECTION
    return HeadGuess(kind, task, "map50", reason, given, classes, fit=fit, usual=usual, **more)


def _decoded(
    kind: str, decoder: BoxDecoder, classes: int, network: NetworkOutputs, reason: str, **more: Any
) -> HeadGuess:
    options = {"decoder": decoder.value, **({"nms_iou": 1.0} if decoder in _SUPPRESSED else {})}
    fit = Fit.STRETCH if decoder in _STRETCHED else Fit.PAD
    return detector(kind, classes, network, options, reason, fit, _USUAL.get(decoder, "0..1"), **more)


_USUAL = {
    BoxDecoder.YOLOX: "0..255",
    BoxDecoder.SSD: "-1..1",
    BoxDecoder.DETR: "ImageNet mean and deviation",
    BoxDecoder.PICODET: "ImageNet mean and deviation",
    BoxDecoder.CENTERNET: "ImageNet mean and deviation",
}
"""Normalisation that networks are published with; the others take 0..1."""
_SUPPRESSED = (BoxDecoder.END_TO_END, BoxDecoder.YOLO26_SPLIT, BoxDecoder.DETR, BoxDecoder.CENTERNET)
"""Whose boxes do not overlap, so that nothing has to be suppressed."""
_STRETCHED = (BoxDecoder.SSD, BoxDecoder.DETR, BoxDecoder.PICODET)
"""Networks that are trained on stretched images; the others keep the proportions."""


def shapes_of(network: NetworkOutputs) -> list[tuple[int, ...]]:
    """Of the outputs, without the batch of 1."""
    return [output.shape[1:] for output in network.outputs]


def _cells(network: NetworkOutputs) -> int:
    """Cells of the three maps of a YOLO network."""
    return sum((network.size[0] // stride) * (network.size[1] // stride) for stride in STRIDES)


def one_table(network: NetworkOutputs) -> HeadGuess | None:
    """One output of two dimensions: positions and what stands at each, in either order."""
    shapes = shapes_of(network)
    if len(shapes) != 1 or len(shapes[0]) != 2 or min(shapes[0]) < 5:
        return None
    rows, columns = shapes[0]
    cells = _cells(network)
    if columns == cells or (columns > rows and rows > 4):
        reason = f"one output {rows}x{columns}: 4 + {rows - 4} values at {columns} positions"
        return _decoded("YOLOv8", BoxDecoder.YOLOV8, rows - 4, network, reason, is_sure=columns == cells)
    if columns == 6 and rows <= _MOST_DETECTIONS and rows != cells:
        reason = f"one output {rows}x6: corners, score and class of {rows} detections"
        names = len(read_exported(network.metadata).classes)
        return _decoded(
            "end-to-end YOLO", BoxDecoder.END_TO_END, names or _COCO_CLASSES, network, reason, is_sure=False
        )
    if columns < 6:
        return None
    reason = f"one output {rows}x{columns}: 5 + {columns - 5} values at {rows} positions"
    if rows == cells:
        return _decoded("YOLOX", BoxDecoder.YOLOX, columns - 5, network, f"{reason}, one per cell")
    return _decoded("YOLOv5", BoxDecoder.YOLOV5, columns - 5, network, reason, is_sure=rows == 3 * cells)


_MOST_DETECTIONS = 1000
_COCO_CLASSES = 80


def _three_maps(network: NetworkOutputs, strides: Sequence[int] = STRIDES) -> list[int] | None:
    """Channels of three maps at ``strides``; None for other outputs."""
    shapes = shapes_of(network)
    sides = [(network.size[0] // stride, network.size[1] // stride) for stride in strides]
    if len(shapes) != 3 or [shape[1:] for shape in shapes] != sides:
        return None
    return [shape[0] for shape in shapes]


def distribution_heads(network: NetworkOutputs) -> HeadGuess | None:
    depths = _three_maps(network)
    if depths is None or len(set(depths)) > 1 or depths[0] <= _DISTANCES:
        return None
    classes = depths[0] - _DISTANCES
    reason = f"three maps of {_DISTANCES} + {classes} channels at strides 8, 16, 32"
    return _decoded("YOLOv8 raw heads", BoxDecoder.YOLOV8_HEADS, classes, network, reason, is_sure=depths[0] % 3 != 0)


_DISTANCES = 64
"""Channels of a map that are distributions of the four sides."""


def split_heads(network: NetworkOutputs) -> HeadGuess | None:
    shapes = shapes_of(network)
    sides = [(network.size[0] // stride, network.size[1] // stride) for stride in STRIDES for _ in range(2)]
    if len(shapes) != 6 or [shape[1:] for shape in shapes] != sides:
        return None
    distances, depths = {shape[0] for shape in shapes[::2]}, {shape[0] for shape in shapes[1::2]}
    if distances not in ({_DISTANCES}, {_SIDES}) or len(depths) > 1:
        return None
    (classes,), (depth,) = depths, distances
    reason = f"six maps of {depth} and {classes} channels at strides 8, 16, 32"
    if depth == _SIDES:
        return _decoded("YOLO26 raw heads", BoxDecoder.YOLO26_SPLIT, classes, network, reason)
    return _decoded("YOLOv8 raw heads", BoxDecoder.YOLOV8_SPLIT, classes, network, reason)


_SIDES = 4
"""Channels of a map that are the distances of the sides themselves."""


def distribution_tables(network: NetworkOutputs) -> HeadGuess | None:
    """PicoDet: class scores of four maps, then distributions of the distances to the sides."""
    shapes, levels = shapes_of(network), len(PICODET_STRIDES)
    cells = [rows * columns for rows, columns in rounded_up_grids(network.size, PICODET_STRIDES)]
    if len(shapes) != 2 * levels or [shape[0] for shape in shapes] != 2 * cells:
        return None
    depths = [shape[1:] for shape in shapes]
    if set(depths[levels:]) != {(4 * PICODET_BINS,)} or len(set(depths[:levels])) > 1 or len(depths[0]) != 1:
        return None
    classes = depths[0][0]
    reason = f"four tables of {classes} class scores and four of {4 * PICODET_BINS} values at strides 8, 16, 32, 64"
    return _decoded("PicoDet", BoxDecoder.PICODET, classes, network, reason)


def anchor_heads(network: NetworkOutputs) -> HeadGuess | None:
    """Raw heads with three anchors each: YOLOv5's from the smallest stride on, YOLOv3's and v4's from the largest."""
    for strides in (STRIDES, STRIDES[::-1]):
        depths = _three_maps(network, strides)
        if depths is None or len(set(depths)) > 1 or depths[0] % 3 or depths[0] < 3 * 6:
            continue
        classes, is_v3 = depths[0] // 3 - 5, strides != STRIDES
        if depths[0] == _DISTANCES + _COCO_CLASSES:
            continue
        name = "YOLOv3" if is_v3 else "YOLOv5"
        anchors = dict(zip(STRIDES, _ANCHORS, strict=True))
        options: dict[str, Any] = {"heads": [{"stride": stride, "anchors": anchors[stride]} for stride in strides]}
        if is_v3:
            options["formula"] = BoxFormula.YOLOV3.value
        where = ", ".join(map(str, strides))
        reason = f"three maps of 3 x (5 + {classes}) channels at strides {where}; anchors are {name}'s usual ones"
        return detector(f"{name} raw heads", classes, network, options, reason, is_sure=False)
    return None


_ANCHORS = (
    [[10.0, 13.0], [16.0, 30.0], [33.0, 23.0]],
    [[30.0, 61.0], [62.0, 45.0], [59.0, 119.0]],
    [[116.0, 90.0], [156.0, 198.0], [373.0, 326.0]],
)
"""Of YOLOv3 and YOLOv5 on COCO, by stride."""


def scores_and_boxes(network: NetworkOutputs) -> HeadGuess | None:
    """Class scores and boxes at the same positions: many of SSD's priors, few of DETR's queries."""
    shapes = shapes_of(network)
    if len(shapes) != 2 or any(len(shape) != 2 for shape in shapes):
        return None
    (positions, depth), (others, four) = shapes
    if positions != others or four != 4 or depth < 2:
        return None
    decoder, kind = (BoxDecoder.DETR, "DETR") if positions <= _MOST_QUERIES else (BoxDecoder.SSD, "SSD")
    reason = f"outputs {positions}x{depth} and {positions}x4: {depth - 1} classes and another one, and boxes"
    return _decoded(kind, decoder, depth - 1, network, reason, is_sure=False)


_MOST_QUERIES = 900


def heat_maps(network: NetworkOutputs) -> HeadGuess | None:
    shapes = shapes_of(network)
    if len(shapes) != 3 or any(len(shape) != 3 for shape in shapes) or len({shape[1:] for shape in shapes}) > 1:
        return None
    if shapes[1][0] != 2 or shapes[2][0] != 2:
        return None
    reason = f"three maps {shapes[0][1]}x{shapes[0][2]}: {shapes[0][0]} classes, sizes and offsets"
    return _decoded("CenterNet", BoxDecoder.CENTERNET, shapes[0][0], network, reason)
