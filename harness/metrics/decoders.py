"""What the outputs of common detectors mean: one table of decoders, from outputs to boxes with a score per class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError, InferenceError
from harness.extensions import DECODERS as OWN_DECODERS
from harness.extensions import OwnDecoder
from harness.metrics.base import Array

Boxes = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Left, top, right, bottom in pixels, (images, boxes, 4); scores 0..1, (images, boxes, classes)."""
Size = tuple[int, int]
"""Height and width of the input in pixels."""

STRIDES = (8, 16, 32)
"""Strides of the three maps that YOLO networks predict from; some have two, or a fourth at 4 or 64."""
PYRAMID_STRIDES = (8, 16, 32, 64, 128)
"""Strides of the five maps that RetinaNet, FCOS and EfficientDet predict from."""
_BINS = 16
"""Distances per side of a box that YOLOv8 tells apart."""
PICODET_STRIDES = (8, 16, 32, 64)
PICODET_BINS = 8
"""Distances per side of a box that PicoDet tells apart."""


class BoxDecoder(StrEnum):
    """Forms of outputs; ``C`` classes, ``P`` positions.

    Attributes:
        YOLOV8: (images, 4 + C, P): centre and size in pixels, class scores (Ultralytics).
        YOLOV8_HEADS: a map per stride (images, 64 + C, h, w): distributions of the distances to the sides, class
            logits.
        YOLOV8_SPLIT: the same in two maps per stride, distances and classes (D-Robotics' model zoo).
        YOLO26_SPLIT: two maps per stride, (images, 4, h, w) distances to the sides in cells and (images, C, h, w) class
            logits (Ultralytics, trained end to end).
        YOLOV5: (images, P, 5 + C): centre and size in pixels, objectness, class scores (Ultralytics, YOLOv7).
        YOLOX: (images, P, 5 + C): centre and size relative to the cell, objectness, class scores (Megvii).
        END_TO_END: (images, P, 6): corners in pixels, score, class; suppression is in the network (YOLOv10).
        SSD: (images, P, C + 1) probabilities, background first, and (images, P, 4) corners in 0..1.
        YOLOV4: (images, P, 1, 4) corners in 0..1 and (images, P, C) class scores (pytorch-YOLOv4).
        FCOS: (images, P, C) class logits, (images, P, 4) distances to the sides in strides, (images, P, 1) logits of
            centreness, for cells at strides 8 to 128 (torchvision).
        DETR: (images, P, C + 1) logits, no object last, and (images, P, 4) centre and size in 0..1.
        PICODET: four tables (images, P, C) of class scores at strides 8 to 64, then four (images, P, 32): distributions
            of the distances to the sides (PaddleDetection, exported without post-processing).
        CENTERNET: maps of class logits (images, C, h, w), of sizes and of offsets (images, 2, h, w), both in cells.
    """

    YOLOV8 = "yolov8"
    YOLOV8_HEADS = "yolov8_heads"
    YOLOV8_SPLIT = "yolov8_split"
    YOLO26_SPLIT = "yolo26_split"
    YOLOV5 = "yolov5"
    YOLOX = "yolox"
    END_TO_END = "end_to_end"
    SSD = "ssd"
    YOLOV4 = "yolov4"
    FCOS = "fcos"
    DETR = "detr"
    PICODET = "picodet"
    CENTERNET = "centernet"


AnyShape = tuple[int | None, ...]
"""Shape of an output for one image, without the batch; None for any size."""


class Decoder(ABC):
    """One form of outputs; those that users register are derived from it, and stateless.

    Attributes:
        needs_size: whether the size of the input must be known; not where boxes are in pixels already.
        is_pyramid: whether there is a map, or a pair of maps, per stride, at any strides.
    """

    needs_size: bool = True
    is_pyramid: bool = False

    @abstractmethod
    def shapes(self, classes: int, size: Size, strides: Sequence[int]) -> list[AnyShape]:
        """Shapes of the outputs; arguments as of :func:`decode_boxes`."""

    @abstractmethod
    def boxes(self, outputs: Sequence[Array], classes: int, size: Size, strides: Sequence[int]) -> Boxes:
        """Boxes and scores of float32 outputs of these shapes; arguments as of :func:`decode_boxes`."""

    def parts(self, outputs: Sequence[Array], classes: int) -> Mapping[str, Sequence[Array]]:
        """What of the outputs means what, as of :meth:`Metric.parts`."""
        del classes
        return {f"output {number}": [output] for number, output in enumerate(outputs)}


Kind = BoxDecoder | OwnDecoder
"""Ptqlab's own, or registered."""


def read_decoder(value: Any) -> Kind:
    """The form that an option names.

    Raises:
        ValueError: there is none of this name, or its registration is wrong.
    """
    if isinstance(value, BoxDecoder | OwnDecoder):
        return value
    if value in {kind.value for kind in BoxDecoder}:
        return BoxDecoder(value)
    try:
        _ = OWN_DECODERS[str(value)]
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return OwnDecoder(value)


def decoder_of(kind: Kind) -> Decoder:
    """The decoder of outputs of this form."""
    found: Decoder = OWN_DECODERS[kind]() if isinstance(kind, OwnDecoder) else DECODERS[kind]
    return found


def decode_boxes(
    kind: Kind, outputs: Sequence[Array], classes: int, size: Size, strides: Sequence[int] = STRIDES
) -> Boxes:
    """Boxes and scores of all images.

    Args:
        kind: form of the outputs.
        outputs: of the network, images in the first dimension.
        classes: without background.
        size: of the input.
        strides: of the maps of pyramids, in the order of the outputs.

    Raises:
        InferenceError: the outputs have other shapes.
    """
    decoder = decoder_of(kind)
    wanted = decoder.shapes(classes, size, strides)
    found = [output.shape[1:] for output in outputs]
    if not _fits(found, wanted):
        raise InferenceError(
            f"decoder {kind.value}: outputs per image have shapes {found}, expected {wanted} for {classes} classes at "
            f"{size[0]}x{size[1]} (None: any)"
        )
    return decoder.boxes([output.astype(np.float32) for output in outputs], classes, size, strides)


def pyramid_grids(size: Size) -> list[tuple[int, int]]:
    """Rows and columns of the five maps of a feature pyramid: halved and rounded up from map to map."""
    return rounded_up_grids(size, PYRAMID_STRIDES)


def rounded_up_grids(size: Size, strides: Sequence[int]) -> list[tuple[int, int]]:
    """Rows and columns of maps at ``strides``, in which a part of a cell counts as one."""
    return [(-(-size[0] // stride), -(-size[1] // stride)) for stride in strides]


def _fits(found: Sequence[tuple[int, ...]], wanted: Sequence[tuple[int | None, ...]]) -> bool:
    return len(found) == len(wanted) and all(
        len(have) == len(want) and all(w in (None, h) for h, w in zip(have, want, strict=True))
        for have, want in zip(found, wanted, strict=True)
    )


def _yolov8(outputs: Sequence[Array], classes: int, size: Size) -> Boxes:
    del classes, size
    rows = np.moveaxis(outputs[0], 1, 2)
    return corners(rows[..., :4]), rows[..., 4:]


def _heads(outputs: Sequence[Array], classes: int, size: Size, strides: Sequence[int]) -> Boxes:
    del size
    maps = (part for output in outputs for part in (output[:, : 4 * _BINS], output[:, 4 * _BINS :]))
    return _pyramid(list(maps), classes, strides)


def _split(outputs: Sequence[Array], classes: int, size: Size, strides: Sequence[int]) -> Boxes:
    del size
    return _pyramid(outputs, classes, strides)


def _pyramid(outputs: Sequence[Array], classes: int, strides: Sequence[int]) -> Boxes:
    """Expected distance of each side, in cells, from the middle of the cell (Li et al., Generalized Focal Loss).

    Distances come as such, or as :data:`_BINS` logits of each; then class logits.
    """
    pairs = list(zip(outputs[::2], outputs[1::2], strict=True))
    boxes, scores = [], []
    for (sides, logits), stride in zip(pairs, strides, strict=True):
        images, depth, height, width = sides.shape
        distances = sides.reshape(images, depth, height * width)
        if depth == 4 * _BINS:
            bins = distances.reshape(images, 4, _BINS, -1)
            weights = np.exp(bins - bins.max(axis=2, keepdims=True))
            distances = (weights * np.arange(_BINS, dtype=np.float32)[:, np.newaxis]).sum(axis=2) / weights.sum(axis=2)
        middle = _cells((height, width)).T + np.float32(0.5)
        ends = np.concatenate([middle - distances[:, :2], middle + distances[:, 2:]], axis=1)
        boxes.append(np.moveaxis(ends, 1, 2) * np.float32(stride))
        scores.append(np.moveaxis(logistic(logits.reshape(images, classes, height * width)), 1, 2))
    return np.concatenate(boxes, axis=1), np.concatenate(scores, axis=1)


def _yolov5(outputs: Sequence[Array], classes: int, size: Size) -> Boxes:
    del classes, size
    rows = outputs[0]
    return corners(rows[..., :4]), rows[..., 4:5] * rows[..., 5:]


def _yolox(outputs: Sequence[Array], classes: int, size: Size) -> Boxes:
    """Centre ``(t + cell) * stride``, size ``exp(t) * stride`` (Ge et al., YOLOX)."""
    del classes
    rows = outputs[0]
    maps = [(size[0] // stride, size[1] // stride) for stride in STRIDES]
    cells = np.concatenate([_cells(shape) for shape in maps])
    strides = np.repeat(np.array(STRIDES, np.float32), [h * w for h, w in maps])[:, np.newaxis]
    centres, sizes = (rows[..., :2] + cells) * strides, np.exp(np.minimum(rows[..., 2:4], LARGEST)) * strides
    return corners(np.concatenate([centres, sizes], axis=-1)), rows[..., 4:5] * rows[..., 5:]


LARGEST = np.float32(20)
"""Logarithm of a size beyond which it is larger than any image."""


def _end_to_end(outputs: Sequence[Array], classes: int, size: Size) -> Boxes:
    del size
    rows = outputs[0]
    scores = np.where(np.rint(rows[..., 5:6]) == np.arange(classes), rows[..., 4:5], 0)
    return rows[..., :4], scores.astype(np.float32)


def _ssd(outputs: Sequence[Array], classes: int, size: Size) -> Boxes:
    del classes
    return outputs[1] * extent(size), outputs[0][..., 1:]


def _yolov4(outputs: Sequence[Array], classes: int, size: Size) -> Boxes:
    del classes
    return outputs[0][:, :, 0] * extent(size), outputs[1]


def _fcos(outputs: Sequence[Array], classes: int, size: Size) -> Boxes:
    """Points at the corners of cells; the score is the geometric mean of class and centreness (Tian et al., FCOS)."""
    del classes
    logits, distances, centreness = outputs
    maps = pyramid_grids(size)
    strides = np.repeat(np.array(PYRAMID_STRIDES, np.float32), [rows * columns for rows, columns in maps])[
        :, np.newaxis
    ]
    points, sides = np.concatenate([_cells(shape) for shape in maps]) * strides, distances * strides
    boxes = np.concatenate([points - sides[..., :2], points + sides[..., 2:]], axis=-1)
    return np.clip(boxes, 0, extent(size)), np.sqrt(logistic(logits) * logistic(centreness))


def _detr(outputs: Sequence[Array], classes: int, size: Size) -> Boxes:
    """Softmax over classes and "no object" (Carion et al., DETR)."""
    del classes
    return corners(outputs[1]) * extent(size), softmax(outputs[0])[..., :-1]


def _picodet(outputs: Sequence[Array], classes: int, size: Size) -> Boxes:
    """Expected distance of each side, in strides, from the middle of the cell, as of YOLOv8 (Yu et al., PP-PicoDet)."""
    del classes
    levels, boxes = len(PICODET_STRIDES), []
    grids = rounded_up_grids(size, PICODET_STRIDES)
    for output, grid, stride in zip(outputs[levels:], grids, PICODET_STRIDES, strict=True):
        bins = output.reshape(len(output), -1, 4, PICODET_BINS)
        distances = softmax(bins) @ np.arange(PICODET_BINS, dtype=np.float32)
        middle = _cells(grid) + np.float32(0.5)
        ends = np.concatenate([middle - distances[..., :2], middle + distances[..., 2:]], axis=-1)
        boxes.append(ends * np.float32(stride))
    return np.concatenate(boxes, axis=1), np.concatenate(outputs[:levels], axis=1)


def _centernet(outputs: Sequence[Array], classes: int, size: Size) -> Boxes:
    """Peaks among 3x3 cells, moved by their offset (Zhou et al., Objects as Points)."""
    from scipy.ndimage import maximum_filter

    heat = logistic(outputs[0])
    peaks = np.where(maximum_filter(heat, (1, 1, 3, 3), mode="constant") == heat, heat, 0)
    images, _, height, width = heat.shape
    stride = np.array([size[1] / width, size[0] / height], np.float32)
    spans, offsets = (np.moveaxis(output.reshape(images, 2, -1), 1, 2) for output in outputs[1:])
    rows = np.concatenate([(_cells((height, width)) + offsets) * stride, spans * stride], axis=-1)
    return corners(rows), np.moveaxis(peaks.reshape(images, classes, -1), 1, 2)


def corners(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Left, top, right, bottom of centre x, centre y, width, height, in the last dimension."""
    half = rows[..., 2:4] / 2
    return np.concatenate([rows[..., :2] - half, rows[..., :2] + half], axis=-1)


def logistic(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Logistic function, without overflow: through tanh."""
    result: NDArray[np.float32] = np.float32(0.5) * (np.tanh(np.float32(0.5) * x) + np.float32(1))
    return result


def softmax(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Softmax over the last dimension."""
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    result: NDArray[np.float32] = weights / weights.sum(axis=-1, keepdims=True)
    return result


def _cells(shape: tuple[int, int]) -> NDArray[np.float32]:
    """Column and row of every cell, (cells, 2), row by row."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    return np.stack([columns.reshape(-1), rows.reshape(-1)], axis=1).astype(np.float32)


def extent(size: Size) -> NDArray[np.float32]:
    """Width and height twice: pixels of a box in 0..1."""
    return np.array([size[1], size[0]] * 2, np.float32)


@dataclass(frozen=True)
class _Form(Decoder):
    """One of ptqlab's own: functions and flags in place of a class."""

    shapes_of: Callable[[int, Size, Sequence[int]], list[AnyShape]]
    boxes_of: Callable[..., Boxes]
    parts_of: Callable[[Sequence[Array], int], Mapping[str, Sequence[Array]]]
    needs_size: bool = True
    is_pyramid: bool = False

    def shapes(self, classes: int, size: Size, strides: Sequence[int]) -> list[AnyShape]:
        return self.shapes_of(classes, size, strides)

    def boxes(self, outputs: Sequence[Array], classes: int, size: Size, strides: Sequence[int]) -> Boxes:
        return self.boxes_of(outputs, classes, size, *((strides,) if self.is_pyramid else ()))

    def parts(self, outputs: Sequence[Array], classes: int) -> Mapping[str, Sequence[Array]]:
        return self.parts_of(outputs, classes)


def _cells_of(size: Size) -> int:
    return sum((size[0] // stride) * (size[1] // stride) for stride in STRIDES)


def _pyramid_cells(size: Size) -> int:
    return sum(rows * columns for rows, columns in pyramid_grids(size))


def _maps(size: Size, strides: Sequence[int], *depths: int) -> list[AnyShape]:
    return [(depth, size[0] // stride, size[1] // stride) for stride in strides for depth in depths]


def _classes_first(outputs: Sequence[Array], classes: int) -> Mapping[str, Sequence[Array]]:
    del classes
    return {"classes": [outputs[0]], "boxes": list(outputs[1:])}


def _with_objectness(outputs: Sequence[Array], classes: int) -> Mapping[str, Sequence[Array]]:
    del classes
    rows = outputs[0]
    return {"boxes": [rows[..., :4]], "objectness": [rows[..., 4:5]], "classes": [rows[..., 5:]]}


def _in_turn(outputs: Sequence[Array], classes: int) -> Mapping[str, Sequence[Array]]:
    del classes
    return {"boxes": list(outputs[::2]), "classes": list(outputs[1::2])}


def _parts_of_heads(outputs: Sequence[Array], classes: int) -> Mapping[str, Sequence[Array]]:
    depth = outputs[0].shape[1] - classes
    return {"boxes": [head[:, :depth] for head in outputs], "classes": [head[:, depth:] for head in outputs]}


def _parts_of_picodet(outputs: Sequence[Array], classes: int) -> Mapping[str, Sequence[Array]]:
    del classes
    half = len(outputs) // 2
    return {"boxes": list(outputs[half:]), "classes": list(outputs[:half])}


DECODERS: Mapping[BoxDecoder, Decoder] = MappingProxyType(
    {
        BoxDecoder.YOLOV8: _Form(
            lambda classes, size, strides: [(4 + classes, None)],
            _yolov8,
            lambda outputs, classes: {"boxes": [outputs[0][:, :4]], "classes": [outputs[0][:, 4:]]},
            needs_size=False,
        ),
        BoxDecoder.YOLOV8_HEADS: _Form(
            lambda classes, size, strides: _maps(size, strides, 4 * _BINS + classes),
            _heads,
            _parts_of_heads,
            is_pyramid=True,
        ),
        BoxDecoder.YOLOV8_SPLIT: _Form(
            lambda classes, size, strides: _maps(size, strides, 4 * _BINS, classes), _split, _in_turn, is_pyramid=True
        ),
        BoxDecoder.YOLO26_SPLIT: _Form(
            lambda classes, size, strides: _maps(size, strides, 4, classes), _split, _in_turn, is_pyramid=True
        ),
        BoxDecoder.YOLOV5: _Form(
            lambda classes, size, strides: [(None, 5 + classes)], _yolov5, _with_objectness, needs_size=False
        ),
        BoxDecoder.YOLOX: _Form(
            lambda classes, size, strides: [(_cells_of(size), 5 + classes)], _yolox, _with_objectness
        ),
        BoxDecoder.END_TO_END: _Form(
            lambda classes, size, strides: [(None, 6)],
            _end_to_end,
            lambda outputs, classes: {"boxes": [outputs[0][..., :4]], "classes": [outputs[0][..., 4:]]},
            needs_size=False,
        ),
        BoxDecoder.SSD: _Form(lambda classes, size, strides: [(None, classes + 1), (None, 4)], _ssd, _classes_first),
        BoxDecoder.YOLOV4: _Form(
            lambda classes, size, strides: [(None, 1, 4), (None, classes)],
            _yolov4,
            lambda outputs, classes: {"boxes": [outputs[0]], "classes": [outputs[1]]},
        ),
        BoxDecoder.FCOS: _Form(
            lambda classes, size, strides: [(_pyramid_cells(size), depth) for depth in (classes, 4, 1)],
            _fcos,
            lambda outputs, classes: {"boxes": [outputs[1]], "objectness": [outputs[2]], "classes": [outputs[0]]},
        ),
        BoxDecoder.DETR: _Form(lambda classes, size, strides: [(None, classes + 1), (None, 4)], _detr, _classes_first),
        BoxDecoder.PICODET: _Form(
            lambda classes, size, strides: [
                (rows * columns, depth)
                for depth in (classes, 4 * PICODET_BINS)
                for rows, columns in rounded_up_grids(size, PICODET_STRIDES)
            ],
            _picodet,
            _parts_of_picodet,
        ),
        BoxDecoder.CENTERNET: _Form(
            lambda classes, size, strides: [(depth, None, None) for depth in (classes, 2, 2)],
            _centernet,
            _classes_first,
        ),
    }
)
"""Ptqlab's own by form."""

PYRAMIDS = tuple(kind for kind, decoder in DECODERS.items() if decoder.is_pyramid)
"""Forms with maps at any strides."""
