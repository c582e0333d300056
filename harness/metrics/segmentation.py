"""Mean intersection over union of class masks."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, model_validator

from engine.errors import InferenceError
from harness.datasets import SceneTarget, Targets
from harness.files.strict_yaml import StrictModel
from harness.metrics.base import Array, Metric, Score, scene_targets

_BYTE = 255


class MaskForm(StrEnum):
    """Forms of an output; ``C`` classes.

    Attributes:
        NCHW: logits, (images, C, h, w).
        NHWC: logits, (images, h, w, C).
        CLASSES: the number of the class of each pixel, (images, h, w), with or without a channel.
        BINARY: one channel, above ``threshold`` where class 1 is; shapes as of ``CLASSES``.
    """

    NCHW = "nchw"
    NHWC = "nhwc"
    CLASSES = "classes"
    BINARY = "binary"


class MiouOptions(StrictModel):
    """What the output is.

    Attributes:
        classes: number of classes of the mask, background included.
        form: of the output.
        ignore: pixels of targets with this value are not counted; of 256 classes all are.
        threshold: of ``form: binary``: 0.5 for probabilities, 0 for logits.
    """

    classes: int = Field(ge=2, le=256)
    form: MaskForm = MaskForm.NCHW
    ignore: int = Field(default=255, ge=0, le=255)
    threshold: FiniteFloat = 0.5

    @model_validator(mode="after")
    def _a_threshold_parts_two(self) -> Self:
        if self.form is MaskForm.BINARY and self.classes != 2:
            raise ValueError(f"form 'binary' tells 2 classes apart, not {self.classes}")
        return self


class Miou(Metric):
    """Mean over classes of intersection / union, counted over all pixels of the split.

    A pixel's class is the largest logit, the first of equal ones. An output of another size than the masks is resized
    to theirs: logits bilinearly before the largest is taken, as torchvision's DeepLab does
    (``interpolate(mode="bilinear", align_corners=False)``), numbers of classes by the nearest pixel. Classes that
    neither targets nor outputs hold stay out of the mean. An image without a pixel that counts is right. The standard
    error is a bootstrap over images.
    """

    name = "miou"
    sought = "classes other than 0"
    Options = MiouOptions

    def __init__(self, options: MiouOptions) -> None:
        self._options, self._classes = options, options.classes

    def score(self, outputs: Sequence[Array], targets: Targets) -> Score:
        """One output, of the form of the options."""
        return score_confusions(self.confusions(outputs, targets))

    def confusions(self, outputs: Sequence[Array], targets: Targets) -> NDArray[np.int64]:
        """Pixels by class of the target (rows) and of the output (columns), (images, classes, classes).

        Raises:
            InferenceError: the output is of another form, or a target holds a class that the options do not know.
        """
        scenes = scene_targets(targets)
        images = self._images(outputs)
        if len(images) != len(scenes):
            raise InferenceError(f"{self.name}: outputs of {len(images)} images, targets of {len(scenes)}")
        return np.stack([self._confusion(image, scene.mask) for image, scene in zip(images, scenes, strict=True)])

    def by_class(self, outputs: Sequence[Array], targets: Targets) -> NDArray[np.float64]:
        """Intersection over union of each class."""
        return _ious(self.confusions(outputs, targets).sum(axis=0))

    def labels(self, outputs: Sequence[Array]) -> Targets:
        """The class of every pixel, in the size of the output."""
        no_boxes, no_classes = np.zeros((0, 4), np.float32), np.zeros(0, np.int64)
        return [
            SceneTarget(no_boxes, no_classes, self._decided(image, image.shape[1:]).astype(np.uint8))
            for image in self._images(outputs)
        ]

    def _images(self, outputs: Sequence[Array]) -> Array:
        """The output as (images, C or 1, height, width)."""
        shapes = [output.shape for output in outputs]
        depth = 1 if self._options.form in (MaskForm.CLASSES, MaskForm.BINARY) else self._classes
        if len(outputs) == 1:
            output = outputs[0]
            if depth == 1 and output.ndim == 3:
                output = output[:, np.newaxis]
            is_last = self._options.form is MaskForm.NHWC or (depth == 1 and output.shape[1:2] != (1,))
            if output.ndim == 4 and output.shape[3 if is_last else 1] == depth:
                return np.moveaxis(output, 3, 1) if is_last else output
        raise InferenceError(
            f"{self.name}: outputs have shapes {shapes}, form {self._options.form.value} needs one with {depth} "
            f"channels for {self._classes} classes"
        )

    def _decided(self, image: Array, size: tuple[int, ...]) -> NDArray[np.int64]:
        """The class of each pixel of ``image``, (C or 1, h, w), at ``size``."""
        if self._options.form is MaskForm.CLASSES:
            rows, columns = (
                np.minimum((np.arange(want) + 0.5) * have / want, have - 1).astype(np.int64)
                for want, have in zip(size, image.shape[1:], strict=True)
            )
            found: NDArray[np.int64] = np.rint(np.nan_to_num(image[0])).astype(np.int64)[np.ix_(rows, columns)]
            if found.min() < 0 or found.max() >= self._classes:
                raise InferenceError(
                    f"{self.name}: the output holds class {found.min() if found.min() < 0 else found.max()}, expected "
                    f"0..{self._classes - 1}"
                )
            return found
        resized = bilinear(image, size)
        is_binary = self._options.form is MaskForm.BINARY
        best: NDArray[np.int64] = resized[0] > self._options.threshold if is_binary else resized.argmax(axis=0)
        return best.astype(np.int64)

    def _confusion(self, image: Array, mask: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Pixels by class of the target (rows) and of the output (columns)."""
        wanted, found = mask.astype(np.int64), self._decided(image, mask.shape)
        if self._classes <= _BYTE:  # of 256 classes the last one is 255
            counted = wanted != self._options.ignore
            wanted, found = wanted[counted], found[counted]
        if wanted.size and wanted.max() >= self._classes:
            raise InferenceError(
                f"{self.name}: a mask holds class {wanted.max()}, the output has {self._classes} classes "
                f"(0..{self._classes - 1}; {self._options.ignore} is not counted)"
            )
        counts: NDArray[np.int64] = np.bincount(
            (wanted * self._classes + found).reshape(-1), minlength=self._classes**2
        )
        return counts.reshape(self._classes, self._classes)


def score_confusions(confusion: NDArray[np.int64]) -> Score:
    """Mean IoU of confusion matrices, (images, classes, classes); see :class:`Miou`.

    An image holds something to find if its mask has a class other than 0.
    """
    shared = np.diagonal(confusion, axis1=1, axis2=2).astype(np.float64)
    either = confusion.sum(axis=1) + confusion.sum(axis=2) - shared

    def mean_iou(weights: NDArray[np.float32]) -> NDArray[np.float64]:
        return _mean_iou(weights @ shared, weights @ either)

    return Score.of(mean_iou, _mean_iou(shared, either), np.asarray(confusion[:, 1:].any(axis=(1, 2)), bool))


def bilinear(image: Array, size: tuple[int, ...]) -> Array:
    """``image``, (channels, h, w), at ``size``; edges are repeated, pixels are squares (``align_corners=False``)."""
    for axis, want in zip((1, 2), size, strict=True):
        have = image.shape[axis]
        if have == want:
            continue
        place = np.clip((np.arange(want) + 0.5) * have / want - 0.5, 0, have - 1)
        low = np.floor(place).astype(np.int64)
        share = (place - low).astype(np.float32).reshape((-1, 1) if axis == 1 else (-1,))
        first, second = np.take(image, low, axis), np.take(image, np.minimum(low + 1, have - 1), axis)
        image = first + (second - first) * share
    return image


def _mean_iou(shared: NDArray[np.float64], either: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the classes that occur, shape (rows,); 1 where nothing is counted.

    Args:
        shared, either: pixels of intersection and union, shape (rows, classes).
    """
    occurs = either > 0
    ratios = np.divide(shared, either, out=np.zeros(either.shape), where=occurs)
    count = occurs.sum(axis=1)
    found: NDArray[np.float64] = np.divide(ratios.sum(axis=1), count, out=np.ones(len(count)), where=count > 0)
    return found


def _ious(confusion: Any) -> NDArray[np.float64]:
    """Intersection over union by class; NaN where neither targets nor outputs have the class."""
    intersection = np.diag(confusion)
    union = confusion.sum(axis=0) + confusion.sum(axis=1) - intersection
    found = np.full(len(intersection), np.nan)
    np.divide(intersection, union, out=found, where=union > 0)
    return found
