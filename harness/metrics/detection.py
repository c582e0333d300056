"""Mean average precision at IoU 0.5, from raw heads with anchors or from outputs that a decoder knows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Self
from weakref import ref

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PlainSerializer, PlainValidator, PositiveInt, model_validator

from engine.terms import Layout
from harness.datasets import SceneTarget, Targets
from harness.files.strict_yaml import StrictModel
from harness.metrics.base import Array, Metric, Score, check_outputs, scene_targets
from harness.metrics.decoders import (
    LARGEST,
    PYRAMIDS,
    STRIDES,
    BoxDecoder,
    Boxes,
    Kind,
    decode_boxes,
    decoder_of,
    logistic,
    read_decoder,
)
from harness.metrics.priors import PriorOptions, decode_priors

_MATCH_IOU = 0.5
_MODELS = 3
"""Models whose detections are kept, as several figures need them: the float model, and two quantised ones, so that the
next of these takes the place of the last one."""


class BoxFormula(StrEnum):
    """How raw heads become boxes; ``s`` is the logistic function, ``t`` a value, ``k`` the head's ``scale_xy``.

    Attributes:
        YOLOV5: centre ``(2 s(t) - 0.5 + cell) * stride``, size ``(2 s(t))^2 * anchor``.
        YOLOV3: centre ``(k s(t) - (k - 1) / 2 + cell) * stride``, size ``exp(t) * anchor``; YOLOv4 with its ``k``.
    """

    YOLOV5 = "yolov5"
    YOLOV3 = "yolov3"


class HeadOptions(StrictModel):
    """One output of the detector.

    Attributes:
        stride: pixels of the image per cell.
        anchors: width and height of each anchor in pixels.
        scale_xy: of ``formula: yolov3``: 1, in YOLOv4 1.2, 1.1 and 1.05 at strides 8, 16 and 32.
    """

    stride: int = Field(ge=1)
    anchors: tuple[tuple[float, float], ...] = Field(min_length=1)
    scale_xy: float = Field(default=1.0, ge=1, le=2)


AnyDecoder = Annotated[Kind, PlainValidator(read_decoder), PlainSerializer(str, str, "json")]
"""A form of outputs in a card."""


class Map50Options(StrictModel):
    """How outputs become detections.

    Attributes:
        classes: number of classes.
        heads: raw heads with anchors, in the order of the model's outputs; none for outputs of another form.
        formula: from values of ``heads`` to boxes.
        priors: prior boxes, and the form of the outputs that are relative to them; none for outputs of another form.
        decoder: form of the outputs without ``heads`` and ``priors``; a registered one too.
        strides: of the maps of the decoders ``yolov8_heads``, ``yolov8_split`` and ``yolo26_split``, in the order of
            the outputs.
        order: numbers of the outputs in the order in which the decoder takes them; empty for their own.
        layout: of maps; NHWC where the channels come last.
        size: height and width of the input in pixels; needed by ``priors`` and decoders but ``yolov8``, ``yolov5``,
            ``end_to_end``.
        score_threshold: detections below it are dropped before suppression.
        nms_iou: of two detections of one class that overlap more than this, the one with the lower score is dropped.
        max_detections: best detections kept per image.
        label_threshold: detections with at least this score are sure: those of the float model stand in for labels
            where there are none, and an image without targets is right if it has none.
    """

    classes: int = Field(ge=1)
    heads: tuple[HeadOptions, ...] = ()
    formula: BoxFormula = BoxFormula.YOLOV5
    priors: PriorOptions | None = None
    decoder: AnyDecoder = BoxDecoder.YOLOV8
    strides: tuple[PositiveInt, ...] = Field(default=STRIDES, min_length=1)
    order: tuple[NonNegativeInt, ...] = ()
    layout: Layout = Layout.NCHW
    size: tuple[PositiveInt, PositiveInt] | None = None
    score_threshold: float = Field(default=0.01, ge=0, lt=1)
    nms_iou: float = Field(default=0.5, gt=0, le=1)
    max_detections: int = Field(default=100, ge=1)
    label_threshold: float = Field(default=0.25, gt=0, lt=1)

    @model_validator(mode="after")
    def _size_is_known(self) -> Self:
        if self.heads and self.priors is not None:
            raise ValueError("outputs have either heads: or priors:")
        if self.size is None and self.priors is not None:
            raise ValueError("priors need size: [height, width]")
        decoder = decoder_of(self.decoder)
        if not self.heads and self.size is None and decoder.needs_size:
            raise ValueError(f"decoder {self.decoder.value!r} needs size: [height, width]")
        if self.strides != STRIDES and (self.heads or self.priors is not None or not decoder.is_pyramid):
            raise ValueError(f"strides belong to the decoders {', '.join(PYRAMIDS)}")
        if self.layout is Layout.NHWC and (self.heads or self.priors is not None or not decoder.is_pyramid):
            raise ValueError(f"layout NHWC belongs to the decoders {', '.join(PYRAMIDS)}")
        if sorted(self.order) != list(range(len(self.order))):
            raise ValueError(f"order: {list(self.order)}: expected each of 0 to {len(self.order) - 1} once")
        return self

    def arranged(self, outputs: Sequence[Array]) -> Sequence[Array]:
        """``outputs`` in the order and the layout that the decoder takes."""
        if len(self.order) == len(outputs):
            outputs = [outputs[number] for number in self.order]
        if self.layout is Layout.NHWC:
            outputs = [np.moveaxis(output, -1, 1) if output.ndim == _MAP_RANK else output for output in outputs]
        return outputs

    @property
    def shapes(self) -> list[tuple[int | None, ...]]:
        """Shapes of the outputs for one image, without heads."""
        if self.priors is not None:
            return self.priors.shapes(self.classes)
        return decoder_of(self.decoder).shapes(self.classes, self.size or (0, 0), self.strides)


_MAP_RANK = 4


@dataclass(frozen=True)
class Detections:
    """Detections on one image, best score first.

    Attributes:
        boxes: float32, shape (detections, 4): left, top, right, bottom in pixels.
        scores: float32, shape (detections,), 0..1.
        classes: int64, shape (detections,).
    """

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    classes: NDArray[np.int64]


class Map50(Metric):
    """Mean over classes of the average precision at IoU 0.5.

    Per image and class, detections in the order of falling score each take the free target box with the largest IoU, if
    that is at least 0.5; the average precision of a class is the area under its precision-recall curve, all points,
    precision made non-increasing (COCO's matching, PASCAL VOC 2010's area). Classes without a target stay out of the
    mean. ``per_sample`` is the same area for one image, all classes pooled; where there is nothing to find, it is 1
    without a detection of at least ``label_threshold``, else 0. Where no image has a target, the mean of that is the
    metric. The standard error is a bootstrap over images.
    """

    name = "map50"
    sought = "objects"
    Options = Map50Options

    def __init__(self, options: Map50Options) -> None:
        self._options = options
        self._decoded: deque[tuple[tuple[ref[Array], ...], list[Detections]]] = deque(maxlen=_MODELS)

    def score(self, outputs: Sequence[Array], targets: Targets) -> Score:
        """One output per head, shape (images, anchors * (5 + classes), height / stride, width / stride).

        Without heads what ``decoder`` takes.
        """
        scenes = scene_targets(targets)
        found, options = self._checked(outputs, scenes), self._options
        return score_detections(found, scenes, options.classes, options.label_threshold)

    def _checked(self, outputs: Sequence[Array], scenes: Sequence[SceneTarget]) -> list[Detections]:
        """The detections of ``outputs``, which must be of images as large as those of ``scenes``."""
        height, width = scenes[0].mask.shape
        check_outputs(self._options.arranged(outputs), self._shapes(len(scenes), height, width))
        return self._detections(outputs)

    def _detections(self, outputs: Sequence[Array]) -> list[Detections]:
        """The detections of ``outputs``; those of the arrays used last that cannot be written to are kept."""
        for place, (arrays, found) in enumerate(self._decoded):
            if len(arrays) == len(outputs) and all(a() is b for a, b in zip(arrays, outputs, strict=True)):
                del self._decoded[place]
                self._decoded.append((arrays, found))  # the last one used goes last
                return found
        found = decode_heads(self._options.arranged(outputs), self._options)
        if not any(output.flags.writeable for output in outputs):
            self._decoded.append((tuple(map(ref, outputs)), found))
        return found

    def labels(self, outputs: Sequence[Array]) -> Targets:
        """The detections of every image that are at least as sure as ``label_threshold``."""
        arranged = self._options.arranged(outputs)
        check_outputs(arranged, self._shapes(len(arranged[0])))
        size = self._options.size or (0, 0)
        if self._options.heads:
            rows, columns = arranged[0].shape[2:]
            size = (rows * self._options.heads[0].stride, columns * self._options.heads[0].stride)
        empty = np.zeros(size, np.uint8)
        scenes = []
        for found in self._detections(outputs):
            sure = found.scores >= self._options.label_threshold
            scenes.append(SceneTarget(found.boxes[sure], found.classes[sure], empty))
        return scenes

    def by_class(self, outputs: Sequence[Array], targets: Targets) -> NDArray[np.float64]:
        """Average precision of each class."""
        scenes, detections = scene_targets(targets), self._detections(outputs)
        found = np.full(self._options.classes, np.nan)
        for curve in _curves(detections, scenes, self._options.classes):
            found[curve.label] = curve.average_precision(np.ones((1, len(scenes)), np.float32))[0]
        return found

    def agreement(self, ours: Sequence[Array], floats: Sequence[Array]) -> float | None:
        """mAP@0.5 of our detections with the float model's as labels; None where that one detects nothing."""
        scenes = scene_targets(self.labels(floats))
        if not any(len(scene.classes) for scene in scenes):
            return None
        curves = _curves(self._checked(ours, scenes), scenes, self._options.classes)
        return float(_mean_average_precision(curves, np.ones((1, len(scenes)), np.float32))[0])

    def parts(self, outputs: Sequence[Array]) -> Mapping[str, Sequence[Array]]:
        """Boxes, objectness (of heads with anchors) and classes."""
        outputs = self._options.arranged(outputs)
        check_outputs(outputs, self._shapes(len(outputs[0])))
        if not self._options.heads:
            return _parts(outputs, self._options)
        depth = 5 + self._options.classes
        cells = [
            output.reshape(len(output), len(head.anchors), depth, -1)
            for output, head in zip(outputs, self._options.heads, strict=True)
        ]
        slices = {"boxes": slice(0, 4), "objectness": slice(4, 5), "classes": slice(5, depth)}
        return {name: [head[:, :, rows] for head in cells] for name, rows in slices.items()}

    def _shapes(self, images: int, height: int | None = None, width: int | None = None) -> list[tuple[int | None, ...]]:
        """What outputs must look like; None for any size."""
        if not self._options.heads:
            return [(images, *shape) for shape in self._options.shapes]
        depth = 5 + self._options.classes
        return [
            (images, len(head.anchors) * depth, height and height // head.stride, width and width // head.stride)
            for head in self._options.heads
        ]


def _parts(outputs: Sequence[Array], options: Map50Options) -> Mapping[str, Sequence[Array]]:
    """What of outputs without heads is boxes, and what classes."""
    if options.priors is not None:
        numbers = {"boxes": options.priors.boxes, "classes": options.priors.class_outputs}
        return {name: [outputs[number] for number in chosen] for name, chosen in numbers.items()}
    return decoder_of(options.decoder).parts(outputs, options.classes)


def score_detections(
    detections: Sequence[Detections], scenes: Sequence[SceneTarget], classes: int, sure: float = 0.25
) -> Score:
    """mAP@0.5 of ready detections, one entry per image; see :class:`Map50`.

    Args:
        detections: on each image.
        scenes: their targets.
        classes: number of classes.
        sure: score from which a detection counts where there is nothing to find.
    """
    hits = [_match(found, scene) for found, scene in zip(detections, scenes, strict=True)]
    has_objects = np.array([len(scene.classes) > 0 for scene in scenes])
    per_sample = np.array(
        [
            average_precision(hit, len(scene.classes))
            if len(scene.classes)
            else float(not (found.scores >= sure).any())
            for hit, found, scene in zip(hits, detections, scenes, strict=True)
        ]
    )
    if not has_objects.any():
        return replace(Score.mean(per_sample), informative=has_objects)
    curves = _curves(detections, scenes, classes, hits)
    return Score.of(partial(_mean_average_precision, curves), per_sample, has_objects)


def _curves(
    detections: Sequence[Detections],
    scenes: Sequence[SceneTarget],
    classes: int,
    hits: Sequence[NDArray[np.bool_]] | None = None,
) -> list[_ClassCurve]:
    """The curve of each class that has a target; ``hits`` are computed where they are not given."""
    if hits is None:
        hits = [_match(found, scene) for found, scene in zip(detections, scenes, strict=True)]
    curves = [_ClassCurve.build(label, detections, hits, scenes) for label in range(classes)]
    return [curve for curve in curves if curve.targets.any()]


def _mean_average_precision(curves: Sequence[_ClassCurve], weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """The mean over classes for each row of weights of images, NaN where no class is there."""
    found = np.stack([curve.average_precision(weights) for curve in curves])
    present = ~np.isnan(found)
    count = present.sum(axis=0)
    sums = np.where(present, found, 0).sum(axis=0)
    mean: NDArray[np.float64] = np.divide(sums, count, out=np.full(len(count), np.nan), where=count > 0)
    return mean


def average_precision(hits: NDArray[np.bool_], targets: int) -> float:
    """Area under the precision-recall curve of one image, all points, precision made non-increasing from the right.

    Args:
        hits: bool, shape (n,): whether each detection hits a target, best first.
        targets: number of target boxes, at least 1.
    """
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    return float((envelope * hits).sum() / targets)


def decode_heads(outputs: Sequence[Array], options: Map50Options) -> list[Detections]:
    """Boxes of all images, after non-maximum suppression; from raw heads, or from decoded rows where there are none.

    Boxes are those of :class:`BoxFormula`, the score is ``s(objectness) * s(class logit)`` of the best class. Scores
    that are not finite are dropped.
    """
    if not options.heads:
        return [_select(*image, options) for image in zip(*_decoded(outputs, options), strict=True)]
    decoded = [_decode_head(output, head, options) for output, head in zip(outputs, options.heads, strict=True)]
    boxes = np.concatenate([boxes for boxes, _ in decoded], axis=1)
    scores = np.concatenate([scores for _, scores in decoded], axis=1)
    return [_select(*image, options) for image in zip(boxes, scores, strict=True)]


def _decoded(outputs: Sequence[Array], options: Map50Options) -> Boxes:
    """Boxes and scores of outputs without heads."""
    size = options.size or (0, 0)
    if options.priors is not None:
        return decode_priors(outputs, options.priors, options.classes, size)
    return decode_boxes(options.decoder, outputs, options.classes, size, options.strides)


def _decode_head(
    output: Array, head: HeadOptions, options: Map50Options
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Boxes, shape (images, boxes, 4), and class scores, shape (images, boxes, classes)."""
    images, _, rows, columns = output.shape
    anchors = np.array(head.anchors, np.float32)[:, np.newaxis, np.newaxis]
    raw = output.astype(np.float32).reshape(images, len(anchors), 5 + options.classes, rows, columns)
    raw = np.moveaxis(raw, 2, -1)
    activated = logistic(raw)
    cells = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=-1).astype(np.float32)
    if options.formula is BoxFormula.YOLOV5:
        places, sizes = 2 * activated[..., 0:2] - np.float32(0.5), (2 * activated[..., 2:4]) ** 2
    else:
        scale = np.float32(head.scale_xy)
        places = scale * activated[..., 0:2] - (scale - 1) / 2
        sizes = np.exp(np.minimum(raw[..., 2:4], LARGEST))
    centres, half = (places + cells) * np.float32(head.stride), sizes * anchors / 2
    boxes = np.concatenate([centres - half, centres + half], axis=-1).reshape(images, -1, 4)
    return boxes, (activated[..., 4:5] * activated[..., 5:]).reshape(images, -1, options.classes)


def _select(boxes: NDArray[np.float32], scores: NDArray[np.float32], options: Map50Options) -> Detections:
    """Threshold, then suppression per class, best first; equal scores rank by position."""
    classes, best = scores.argmax(axis=1), scores.max(axis=1)
    likely = np.flatnonzero((best >= options.score_threshold) & np.isfinite(boxes).all(axis=1))
    order = likely[np.argsort(-best[likely], kind="stable")]
    boxes, best, classes = boxes[order], best[order], classes[order]
    kept = _suppressed(boxes, classes, options.nms_iou, options.max_detections)
    return Detections(boxes[kept], best[kept], classes[kept])


def _suppressed(boxes: NDArray[np.float32], classes: NDArray[np.int64], nms_iou: float, most: int) -> NDArray[np.int64]:
    """Indices of the first ``most`` boxes, given best first, that no better one of their class overlaps too much.

    Only boxes that are kept are compared with the remaining ones: where a network finds thousands of boxes, all pairs
    would take a hundred times as long.
    """
    if nms_iou >= 1:
        return np.arange(min(len(boxes), most))
    kept: list[int] = []
    is_left, place = np.ones(len(boxes), bool), np.zeros(len(boxes), np.int64)
    groups = {}
    for label in np.unique(classes):
        members = np.flatnonzero(classes == label)
        place[members] = np.arange(len(members))
        edges = np.ascontiguousarray(boxes[members].T)
        groups[label] = members, edges, _areas(edges)
    for index in range(len(boxes)):
        if len(kept) == most:
            break
        if is_left[index]:
            kept.append(index)
            members, edges, areas = groups[classes[index]]
            own, behind = place[index], slice(place[index] + 1, None)
            overlaps = _overlaps(edges[:, own], areas[own], edges[:, behind], areas[behind])
            is_left[members[behind][overlaps > nms_iou]] = False
    return np.array(kept, np.int64)


def box_iou(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
    """Intersection over union of each pair of boxes, float32, shape (n, m); 0 where both are empty."""
    # A row of contiguous numbers per edge: axes of length two or four would take ten times as long.
    one, other = (np.ascontiguousarray(boxes.T) for boxes in (first, second))
    return _overlaps(one[:, :, np.newaxis], _areas(one)[:, np.newaxis], other[:, np.newaxis], _areas(other))


def _areas(edges: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of boxes as rows left, top, right, bottom."""
    width, height = (np.maximum(edges[axis + 2] - edges[axis], 0) for axis in (0, 1))
    return np.asarray(width * height)


def _overlaps(
    one: NDArray[np.float32], one_area: Any, other: NDArray[np.float32], other_area: Any
) -> NDArray[np.float32]:
    """Intersection over union of boxes as rows of edges that broadcast; 0 where both are empty."""
    width, height = (
        np.maximum(np.minimum(one[axis + 2], other[axis + 2]) - np.maximum(one[axis], other[axis]), 0)
        for axis in (0, 1)
    )
    shared = width * height
    union = one_area + other_area - shared
    ratio: NDArray[np.float32] = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return ratio


def _match(found: Detections, scene: SceneTarget) -> NDArray[np.bool_]:
    """Which detections hit a target, shape (detections,)."""
    overlap = box_iou(found.boxes, scene.boxes)
    overlap[found.classes[:, np.newaxis] != scene.classes] = 0
    hits = np.zeros(len(found.scores), bool)
    for index in range(len(hits)):
        best = overlap[index].argmax() if overlap.shape[1] else 0
        if overlap.shape[1] and overlap[index, best] >= _MATCH_IOU:
            hits[index] = True
            overlap[:, best] = 0
    return hits


@dataclass(frozen=True)
class _ClassCurve:
    """Ranking of all detections of one class.

    Attributes:
        label: the class.
        images: int64, shape (detections,): image of each detection, best score first.
        hits: int64, 0 or 1, same shape.
        targets: int64, shape (images,): target boxes of the class per image.
    """

    label: int
    images: NDArray[np.int64]
    hits: NDArray[np.int64]
    targets: NDArray[np.int64]

    @classmethod
    def build(
        cls,
        label: int,
        detections: Sequence[Detections],
        hits: Sequence[NDArray[np.bool_]],
        scenes: Sequence[SceneTarget],
    ) -> _ClassCurve:
        chosen = [found.classes == label for found in detections]
        scores = np.concatenate([found.scores[c] for found, c in zip(detections, chosen, strict=True)])
        images = np.repeat(np.arange(len(detections)), [int(c.sum()) for c in chosen])
        order = np.argsort(-scores, kind="stable")
        hit = np.concatenate([h[c] for h, c in zip(hits, chosen, strict=True)]).astype(np.int64)
        targets = np.array([int((scene.classes == label).sum()) for scene in scenes], np.int64)
        return cls(label, images[order], hit[order], targets)

    def average_precision(self, weights: NDArray[np.float32]) -> NDArray[np.float64]:
        """As if images occurred so often, shape (rows,); NaN for a row without a target.

        Precision is greatest at hits, so that it is computed there only: ``listed[i, h]`` are the detections on image
        ``i`` down to hit ``h``.

        Args:
            weights: shape (rows, images).
        """
        places = np.flatnonzero(self.hits)
        owners, last = self.images[places], places[-1] + 1 if len(places) else 0
        listed = np.zeros((weights.shape[1], len(places)), np.float32)
        np.add.at(listed, (self.images[:last], np.searchsorted(places, np.arange(last))), 1)
        own = weights[:, owners].astype(np.float64)
        above = (weights @ np.cumsum(listed, axis=1)).astype(np.float64)
        precision = np.divide(np.cumsum(own, axis=1), above, out=np.zeros_like(own), where=above > 0)
        envelope = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        targets = weights @ self.targets.astype(np.float64)
        areas, unknown = (envelope * own).sum(axis=1), np.full(len(targets), np.nan)
        found: NDArray[np.float64] = np.divide(areas, targets, out=unknown, where=targets > 0)
        return found
