"""Detectors by the number and shapes of their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from engine.terms import Layout
from harness.metrics.decoders import PICODET_BINS, PICODET_STRIDES, STRIDES, BoxDecoder, rounded_up_grids
from harness.metrics.detection import BoxFormula
from harness.onboarding.exporters import read_exported
from harness.onboarding.head_guess import HeadGuess
from harness.onboarding.network_file import Branch, NetworkOutputs
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
    suppressed = _is_suppressed(decoder, network)
    options = {"decoder": decoder.value, **({"nms_iou": 1.0} if suppressed else {}), **more.pop("options", {})}
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
"""Whose boxes do not overlap, so that nothing has to be suppressed, where the file does not name the branch."""


def _is_suppressed(decoder: BoxDecoder, network: NetworkOutputs) -> bool:
    """Whether the network gives one box per object.

    YOLOv10 and YOLO26 have two branches of the same form: one-to-one, whose boxes stand alone, and one-to-many. The
    file says which one it holds by the names of its layers, or by ``end2end`` in its metadata.
    """
    if decoder in (BoxDecoder.END_TO_END, BoxDecoder.DETR, BoxDecoder.CENTERNET):
        return True
    branches = {output.branch for output in network.outputs}
    if branches in ({Branch.ONE_TO_ONE}, {Branch.ONE_TO_MANY}):
        return branches == {Branch.ONE_TO_ONE}
    said = read_exported(network.metadata).is_end_to_end
    return decoder in _SUPPRESSED if said is None else said


_STRETCHED = (BoxDecoder.SSD, BoxDecoder.DETR, BoxDecoder.PICODET)
"""Networks that are trained on stretched images; the others keep the proportions."""


def shapes_of(network: NetworkOutputs) -> list[tuple[int, ...]]:
    """Shapes of the outputs, without the batch of 1."""
    return [output.shape[1:] for output in network.outputs]


def _cells(network: NetworkOutputs, strides: Sequence[int] = STRIDES) -> int:
    """Cells of the maps of a YOLO network."""
    return sum((network.size[0] // stride) * (network.size[1] // stride) for stride in strides)


_PYRAMIDS = (STRIDES, (16, 32), (4, *STRIDES), (*STRIDES, 64), (4, *STRIDES, 64))
"""Strides of published YOLO networks: usual, tiny, P2, P6."""


def one_table(network: NetworkOutputs) -> HeadGuess | None:
    """One output of two dimensions: positions and what stands at each, in either order."""
    shapes = shapes_of(network)
    if len(shapes) != 1 or len(shapes[0]) != 2 or min(shapes[0]) < 5:
        return None
    rows, columns = shapes[0]
    cells, known = _cells(network), {_cells(network, strides) for strides in _PYRAMIDS}
    if columns in known or (columns > rows and rows > 4):
        reason = f"one output {rows}x{columns}: 4 + {rows - 4} values at {columns} positions"
        return _decoded("YOLOv8", BoxDecoder.YOLOV8, rows - 4, network, reason, is_sure=columns in known)
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
    is_sure = rows in {3 * count for count in known}
    return _decoded("YOLOv5", BoxDecoder.YOLOV5, columns - 5, network, reason, is_sure=is_sure)


_MOST_DETECTIONS = 1000
_COCO_CLASSES = 80


def _three_maps(network: NetworkOutputs, strides: Sequence[int] = STRIDES) -> list[int] | None:
    """Channels of three maps at ``strides``; None for other outputs."""
    shapes = shapes_of(network)
    sides = [(network.size[0] // stride, network.size[1] // stride) for stride in strides]
    if len(shapes) != 3 or [shape[1:] for shape in shapes] != sides:
        return None
    return [shape[0] for shape in shapes]


def _strides_of(sides: Sequence[tuple[int, ...]], size: tuple[int, int]) -> tuple[int, ...] | None:
    """Strides of a pyramid of maps with these sides, each twice the one before; None for other maps."""
    if len(sides) < 2 or any(len(side) != 2 or 0 in side for side in sides):
        return None
    found = tuple(size[0] // height for height, _ in sides)
    if 0 in found:  # a map larger than the image
        return None
    fits = all((size[0] // stride, size[1] // stride) == side for stride, side in zip(found, sides, strict=True))
    doubles = all(later == 2 * earlier for earlier, later in pairwise(found))
    return found if fits and doubles and found[0] in _FIRST_STRIDES else None


_FIRST_STRIDES = (4, 8, 16)


def _pyramid(
    kind: str,
    decoder: BoxDecoder,
    classes: int,
    strides: tuple[int, ...],
    maps: str,
    network: NetworkOutputs,
    options: Mapping[str, Any],
    **more: Any,
) -> HeadGuess:
    """Raw maps at ``strides``."""
    options = {**options, **({} if strides == STRIDES else {"strides": list(strides)})}
    reason = f"{maps} at strides {', '.join(map(str, strides))}"
    return _decoded(kind, decoder, classes, network, reason, options=options, **more)


def distribution_heads(network: NetworkOutputs) -> HeadGuess | None:
    """A map per stride, of distributions of the distances to the sides and of classes."""
    shapes = shapes_of(network)
    strides = _strides_of([shape[1:] for shape in shapes], network.size)
    depths = {shape[0] for shape in shapes} if strides is not None else set()
    if strides is None or len(depths) > 1 or min(depths) <= _DISTANCES:
        return None
    classes = min(depths) - _DISTANCES
    maps = f"{_NUMBERS.get(len(shapes), len(shapes))} maps of {_DISTANCES} + {classes} channels"
    is_sure = min(depths) % 3 != 0
    return _pyramid("YOLOv8 raw heads", BoxDecoder.YOLOV8_HEADS, classes, strides, maps, network, {}, is_sure=is_sure)


_DISTANCES = 64
"""Channels of a map that are distributions of the four sides."""
_NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 8: "eight", 10: "ten"}


def split_heads(network: NetworkOutputs) -> HeadGuess | None:
    """Two maps per stride: of the distances to the sides, and of classes, in any order and either layout.

    Exports for the boards move the channels to the end, and give the classes first, or all boxes before all classes.
    """
    for layout in Layout:
        shapes = [_channels_first(shape, layout) for shape in shapes_of(network)]
        for depth in (_DISTANCES, _SIDES):
            found = _paired(network, shapes, depth, layout)
            if found is not None:
                return found
    return None


def _channels_first(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    return shape if layout is Layout.NCHW or not shape else (shape[-1], *shape[:-1])


def _paired(network: NetworkOutputs, shapes: Sequence[tuple[int, ...]], depth: int, layout: Layout) -> HeadGuess | None:
    """The guess where each side has a map of ``depth`` channels and one of classes."""
    maps = [(number, shape) for number, shape in enumerate(shapes) if len(shape) == _MAP_DIMS]
    if len(maps) != len(shapes) or len(shapes) % 2:
        return None
    usual = all(shape[0] == depth for _, shape in maps[::2])
    boxes = maps[::2] if usual else [each for each in maps if each[1][0] == depth]
    numbers = {number for number, _ in boxes}
    others = [each for each in maps if each[0] not in numbers]
    pairs = list(zip(*(sorted(part, key=lambda each: -each[1][1]) for part in (boxes, others)), strict=False))
    classes = {shape[0] for _, shape in others}
    strides = _strides_of([shape[1:] for (_, shape), _ in pairs], network.size)
    if strides is None or len(boxes) != len(others) or len(classes) != 1:
        return None
    if any(box[1:] != other[1:] for (_, box), (_, other) in pairs):
        return None
    count, order = min(classes), [number for pair in pairs for number, _ in pair]
    words = f"{_NUMBERS.get(len(shapes), len(shapes))} maps of {depth} and {count} channels"
    options: dict[str, Any] = {} if order == list(range(len(order))) else {"order": order}
    if layout is Layout.NHWC:
        options["layout"], words = layout.value, f"{words}, which come last,"
    kind, decoder = _SPLIT[depth]
    return _pyramid(kind, decoder, count, strides, words, network, options)


_MAP_DIMS = 3
_SIDES = 4
"""Channels of a map that are the distances of the sides themselves."""
_SPLIT = {
    _DISTANCES: ("YOLOv8 raw heads", BoxDecoder.YOLOV8_SPLIT),
    _SIDES: ("YOLO26 raw heads", BoxDecoder.YOLO26_SPLIT),
}


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
"""Anchors of YOLOv3 and YOLOv5 on COCO, by stride."""


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
