"""Boxes that networks predict relative to prior boxes: SSD, RetinaNet, EfficientDet.

Values ``t`` with variances ``v`` move a prior with centre ``p`` and size ``s`` to ``p + v t s`` and ``s exp(v t)``
(Liu et al., SSD; Lin et al., Focal Loss for Dense Object Detection).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from harness.files.strict_yaml import StrictModel
from harness.metrics.base import Array
from harness.metrics.decoders import Boxes, Size, corners, extent, logistic, softmax

LARGEST_GROWTH = np.float32(math.log(1000 / 16))
"""Logarithm of size over prior's size at most, as torchvision and Detectron2 have it."""


class PriorLayout(StrEnum):
    """Dimensions of the outputs of ``A`` priors per cell with ``D`` values each.

    Attributes:
        ROWS: (images, positions, D): all levels in one table, or a table per level.
        NCHW: (images, A * D, rows, columns), a map per level.
        NHWC: (images, rows, columns, A * D), a map per level.
    """

    ROWS = "rows"
    NCHW = "nchw"
    NHWC = "nhwc"


class PriorScores(StrEnum):
    """What class values are: logits of independent classes, logits of classes of which one is right, probabilities."""

    SIGMOID = "sigmoid"
    SOFTMAX = "softmax"
    PROBABILITIES = "probabilities"


class PriorLevel(StrictModel):
    """Priors of one map.

    Attributes:
        grid: rows and columns of the map.
        stride: pixels of the image per cell.
        sizes: width and height in pixels of each prior of a cell.
    """

    grid: tuple[PositiveInt, PositiveInt]
    stride: float = Field(gt=0)
    sizes: tuple[tuple[PositiveFloat, PositiveFloat], ...] = Field(min_length=1)

    @property
    def count(self) -> int:
        """Priors of all cells."""
        return self.grid[0] * self.grid[1] * len(self.sizes)

    def boxes(self, centre: float) -> NDArray[np.float32]:
        """Centre x, centre y, width, height in pixels, (priors, 4), cell by cell and row by row."""
        rows, columns = ((np.arange(cells) + centre) * self.stride for cells in self.grid)
        y, x, index = np.meshgrid(rows, columns, np.arange(len(self.sizes)), indexing="ij")
        sizes = np.array(self.sizes)[index.reshape(-1)]
        return np.column_stack([x.reshape(-1), y.reshape(-1), sizes]).astype(np.float32)


class PriorOptions(StrictModel):
    """Form of the outputs of a network with prior boxes.

    Attributes:
        levels: in the order of the outputs.
        output: instead of ``levels``, the number of the output that holds the priors, (priors, 4): centre and size in
            0..1, as ssd.pytorch gives them.
        boxes: numbers of the outputs with box values, from 0, in the order of the levels; the others hold class values.
        layout: of the outputs.
        scores: what class values are.
        has_background: whether the first class is none.
        variances: what the values of x, y, width and height are multiplied by.
        rows_first: whether they are in the order y, x, height, width.
        centre: of priors within their cell: 0.5 the middle, 0 the corner.
    """

    levels: tuple[PriorLevel, ...] = ()
    output: int | None = Field(default=None, ge=0)
    boxes: tuple[int, ...] = Field(default=(1,), min_length=1)
    layout: PriorLayout = PriorLayout.ROWS
    scores: PriorScores = PriorScores.SIGMOID
    has_background: bool = False
    variances: tuple[PositiveFloat, PositiveFloat, PositiveFloat, PositiveFloat] = (1.0, 1.0, 1.0, 1.0)
    rows_first: bool = False
    centre: float = Field(default=0.5, ge=0, le=1)

    @model_validator(mode="after")
    def _outputs_are_known(self) -> Self:
        if bool(self.levels) == (self.output is not None):
            raise ValueError("priors need either levels: or output:")
        one_table = self.layout is PriorLayout.ROWS and len(self.boxes) == 1
        if not one_table and len(self.boxes) != len(self.levels):
            raise ValueError(f"boxes: lists {len(self.boxes)} outputs, levels: has {len(self.levels)}")
        numbers = [*self.boxes, *([] if self.output is None else [self.output])]
        if len(set(numbers)) < len(numbers) or not all(0 <= number < self.outputs for number in numbers):
            raise ValueError(f"boxes and output: {numbers} must be different outputs, 0 to {self.outputs - 1}")
        return self

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return 2 * len(self.boxes) + (self.output is not None)

    @property
    def class_outputs(self) -> list[int]:
        """Numbers of the outputs with class values."""
        return [number for number in range(self.outputs) if number not in (*self.boxes, self.output)]

    def shapes(self, classes: int) -> list[tuple[int | None, ...]]:
        """Shapes of all outputs for one image, without the batch; None for any size."""
        found: dict[int, tuple[int | None, ...]] = {}
        for numbers, depth in ((self.boxes, 4), (self.class_outputs, classes + self.has_background)):
            for place, number in enumerate(numbers):
                found[number] = self._shape(place, depth)
        if self.output is not None:
            found[self.output] = (None, 4)
        return [found[number] for number in range(self.outputs)]

    def _shape(self, place: int, depth: int) -> tuple[int | None, ...]:
        if self.output is not None:
            return (None, depth)
        if self.layout is PriorLayout.ROWS:
            chosen = self.levels if len(self.boxes) == 1 else [self.levels[place]]
            return (sum(level.count for level in chosen), depth)
        level = self.levels[place]
        channels = len(level.sizes) * depth
        return (channels, *level.grid) if self.layout is PriorLayout.NCHW else (*level.grid, channels)


def decode_priors(outputs: Sequence[Array], options: PriorOptions, classes: int, size: Size) -> Boxes:
    """Boxes and scores of all images; boxes end at the border of the image.

    Args:
        outputs: of the network, images in the first dimension, of :meth:`PriorOptions.shapes`.
        options: their form.
        classes: without background.
        size: of the input.
    """
    depth = classes + options.has_background
    values = np.concatenate([_rows(outputs[number], options.layout, 4) for number in options.boxes], axis=1)
    if options.rows_first:
        values = values[..., [1, 0, 3, 2]]
    if options.output is None:
        priors = np.concatenate([level.boxes(options.centre) for level in options.levels])[np.newaxis]
    else:
        priors = outputs[options.output].astype(np.float32) * extent(size)
    moved = values * np.array(options.variances, np.float32)
    centres = priors[..., :2] + moved[..., :2] * priors[..., 2:]
    sizes = priors[..., 2:] * np.exp(np.minimum(moved[..., 2:], LARGEST_GROWTH))
    boxes = np.clip(corners(np.concatenate([centres, sizes], axis=-1)), 0, extent(size))
    raw = np.concatenate([_rows(outputs[number], options.layout, depth) for number in options.class_outputs], axis=1)
    scores = {PriorScores.SIGMOID: logistic, PriorScores.SOFTMAX: softmax}.get(options.scores, np.asarray)(raw)
    return boxes, scores[..., 1:] if options.has_background else scores


def _rows(output: Array, layout: PriorLayout, depth: int) -> NDArray[np.float32]:
    """(images, positions, ``depth``): cell by cell, prior by prior."""
    cells = np.moveaxis(output, 1, 3) if layout is PriorLayout.NCHW else output
    return cells.reshape(len(output), -1, depth).astype(np.float32)
