"""What each task is trained on: batches with augmentation, and the loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from harness.datasets import SceneTarget
from harness.metrics.detection import HeadOptions, Map50Options

ROTATION = 0.25
SCALE = 0.15
SHEAR = 0.2
SHIFT = 0.12


def distort(images: Tensor, random: torch.Generator) -> Tensor:
    """Random rotation, scale, shear and shift of every image, (N, C, H, W)."""

    def symmetric(limit: float) -> Tensor:
        return (torch.rand(len(images), generator=random) * 2 - 1) * limit

    angle, scale, shear = symmetric(ROTATION), 1 + symmetric(SCALE), symmetric(SHEAR)
    cosine, sine = torch.cos(angle) * scale, torch.sin(angle) * scale
    rows = [torch.stack([cosine, shear - sine, symmetric(SHIFT)], 1), torch.stack([sine, cosine, symmetric(SHIFT)], 1)]
    grid = functional.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def detection_loss(heads: Sequence[Tensor], scenes: Sequence[SceneTarget], options: Map50Options) -> Tensor:
    """Box, objectness and class loss of raw heads against target boxes (the decoding of :class:`Map50`)."""
    total = torch.zeros(())
    best = _best_anchors(scenes, options)
    for number, (raw, head) in enumerate(zip(heads, options.heads, strict=True)):
        count = len(head.anchors)
        batch, _, height, width = raw.shape
        values = raw.reshape(batch, count, 5 + options.classes, height, width).permute(0, 1, 3, 4, 2)
        rows = _assigned(scenes, best, number, head, (height, width))
        objectness = torch.zeros(batch, count, height, width)
        if rows:
            image, anchor, y, x, box, label = (torch.tensor([row[k] for row in rows]) for k in range(6))
            chosen = values[image, anchor, y, x]
            predicted = _decode(chosen, torch.stack([x, y], 1), torch.tensor(head.anchors)[anchor], head.stride)
            overlap = _generalised_iou(predicted, box)
            total = total + 4.0 * (1 - overlap).mean()
            objectness[image, anchor, y, x] = overlap.detach().clamp(0)
            wanted = functional.one_hot(label.long(), options.classes).float()
            total = total + functional.binary_cross_entropy_with_logits(chosen[:, 5:], wanted) * 4.0
        weight = torch.where(objectness > 0, 8.0, 1.0)
        total = total + 4.0 * functional.binary_cross_entropy_with_logits(values[..., 4], objectness, weight)
    return total


def _best_anchors(scenes: Sequence[SceneTarget], options: Map50Options) -> list[list[tuple[int, int]]]:
    """Head and anchor whose shape is nearest, per box of each scene."""
    shapes = [(h, a, *anchor) for h, head in enumerate(options.heads) for a, anchor in enumerate(head.anchors)]
    found = []
    for scene in scenes:
        sizes = [(float(box[2] - box[0]), float(box[3] - box[1])) for box in scene.boxes]
        nearest = [int(np.argmax([_shape_iou(size, shape[2:]) for shape in shapes])) for size in sizes]
        found.append([shapes[index][:2] for index in nearest])
    return found


def _shape_iou(first: tuple[float, float], second: tuple[float, float]) -> float:
    common = min(first[0], second[0]) * min(first[1], second[1])
    return common / (first[0] * first[1] + second[0] * second[1] - common)


def _assigned(
    scenes: Sequence[SceneTarget],
    best: Sequence[Sequence[tuple[int, int]]],
    number: int,
    head: HeadOptions,
    size: tuple[int, int],
) -> list[tuple[int, int, int, int, list[float], int]]:
    """Cells that are responsible for a box: the centre's and its two nearest neighbours (YOLOv5)."""
    rows = []
    for index, scene in enumerate(scenes):
        for box, label, (owner, anchor) in zip(scene.boxes, scene.classes, best[index], strict=True):
            if owner != number:
                continue
            cx, cy = (box[0] + box[2]) / 2 / head.stride, (box[1] + box[3]) / 2 / head.stride
            cells = {(int(cx), int(cy))}
            cells.add((int(cx) + (1 if cx % 1 > 0.5 else -1), int(cy)))
            cells.add((int(cx), int(cy) + (1 if cy % 1 > 0.5 else -1)))
            for x, y in sorted(cells):
                if 0 <= x < size[1] and 0 <= y < size[0]:
                    rows.append((index, anchor, y, x, [float(value) for value in box], int(label)))
    return rows


def _decode(raw: Tensor, cell: Tensor, anchor: Tensor, stride: int) -> Tensor:
    """Boxes (left, top, right, bottom) of raw predictions, as :func:`harness.metrics.detection.decode_heads`."""
    sigmoid = torch.sigmoid(raw[:, :4])
    centre = (2 * sigmoid[:, :2] - 0.5 + cell) * stride
    half = (2 * sigmoid[:, 2:]) ** 2 * anchor / 2
    return torch.cat([centre - half, centre + half], 1)


def _generalised_iou(first: Tensor, second: Tensor) -> Tensor:
    """Generalised IoU of boxes row by row."""
    low, high = torch.maximum(first[:, :2], second[:, :2]), torch.minimum(first[:, 2:], second[:, 2:])
    common = (high - low).clamp(0).prod(1)
    areas = (first[:, 2:] - first[:, :2]).prod(1) + (second[:, 2:] - second[:, :2]).prod(1)
    union = areas - common
    hull = torch.maximum(first[:, 2:], second[:, 2:]) - torch.minimum(first[:, :2], second[:, :2])
    area = hull.prod(1).clamp(1e-6)
    return common / union.clamp(1e-6) - (area - union) / area
