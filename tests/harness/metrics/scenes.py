"""Targets of boxes and masks, made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.datasets import SceneTarget

Box = tuple[float, float, float, float]


def scene(boxes: Sequence[Box], classes: Sequence[int], mask: np.ndarray | None = None) -> SceneTarget:
    shape = np.array(boxes, np.float32).reshape(-1, 4)
    return SceneTarget(shape, np.array(classes, np.int64), np.zeros((16, 16), np.uint8) if mask is None else mask)
