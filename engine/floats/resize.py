"""Resize of float32 maps as both simulators compute it: nearest neighbours, and bilinear.

Coordinates, weights and the order of the four products are those of ONNX Runtime, which computes both in plain float32:
on a CPU of x86-64 it has the same bits. Every other Resize stays with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import attribute

Floats = NDArray[np.float32]

FIRST_OPSET = 11
"""Before it a Resize had no coordinate transformation mode."""
_HALF = np.float32(0.5)


@dataclass(frozen=True)
class SourceLines:
    """Where the output's lines along one axis come from.

    Attributes:
        sources: (2, lines), int64: the input's lines at or before each, and behind it.
        weights: (2, lines), float32: what they count; without lines where neighbours are not mixed.
    """

    sources: NDArray[np.int64]
    weights: Floats


@dataclass(frozen=True)
class ResizePlan:
    """A Resize over the last two of four axes.

    Attributes:
        rows: of the output.
        columns: of the output.
        linear: whether four neighbours are mixed; else the nearest one is taken.
    """

    rows: SourceLines
    columns: SourceLines
    linear: bool


def plan_of(node: ir.Node, inputs: Sequence[Any], opset: int) -> ResizePlan | None:
    """The plan of a ``Resize`` that is computed here; ``None`` for any other.

    Args:
        node: a standard node.
        inputs: of the node: the first an array or tensor with ``shape`` and ``dtype``, the others constant arrays, or
            ``None`` where they are omitted.
        opset: that the node is of.
    """
    x, _, factors, sizes = [*inputs, None, None, None][:4]
    mode = attribute(node, "mode", "nearest")
    coordinates = attribute(node, "coordinate_transformation_mode", "half_pixel")
    rounding = attribute(node, "nearest_mode", "round_prefer_floor")
    known = mode == "linear" or (mode == "nearest" and rounding in _NEAREST)
    plain = not attribute(node, "antialias", 0) and attribute(node, "axes") is None
    plain = plain and attribute(node, "keep_aspect_ratio_policy", "stretch") == "stretch"
    constant = all(given is None or isinstance(given, np.ndarray) for given in (factors, sizes))
    if node.op_type != "Resize" or opset < FIRST_OPSET or not known or coordinates not in _COORDINATES:
        return None
    if not plain or not constant or x.dtype != np.float32 or len(x.shape) != 4 or 0 in x.shape:
        return None
    scales = _scales(x.shape, factors, sizes)
    if scales is None:
        return None
    out = sizes if sizes is not None and len(sizes) else np.floor(np.array(x.shape, np.float32) * scales)
    lengths = [int(length) for length in out]
    if lengths[:2] != list(x.shape[:2]) or any(scales[:2] != 1) or min(lengths) < 1 or lengths == list(x.shape):
        return None
    line = _linear if mode == "linear" else _nearest(rounding)
    rows, columns = (
        line(_positions(coordinates, lengths[axis], x.shape[axis], scales[axis]), x.shape[axis]) for axis in (2, 3)
    )
    return ResizePlan(rows, columns, mode == "linear")


def resized(x: Floats, plan: ResizePlan) -> Floats:
    """``x`` (maps, channels, height, width) at the plan's lines.

    The products of the weights of a row and a column, times the upper left, upper right, lower left and lower right
    neighbour, are added in this order; every operation is rounded.
    """
    above, below = (x[:, :, lines] for lines in plan.rows.sources)
    left, right = plan.columns.sources
    if not plan.linear:
        return above[..., left]
    with np.errstate(all="ignore"):
        (upper, lower), (before, behind) = plan.rows.weights[:, :, None], plan.columns.weights
        total: Floats = before * upper * above[..., left] + behind * upper * above[..., right]
        total += before * lower * below[..., left]
        total += behind * lower * below[..., right]
        return total


def _scales(shape: Sequence[int], factors: Any, sizes: Any) -> Floats | None:
    """Output lengths over input lengths, one for each axis."""
    if sizes is not None and len(sizes) == len(shape):
        scales: Floats = np.divide(sizes, shape, dtype=np.float32)
        return scales
    if factors is not None and len(factors) == len(shape) and np.all(np.asarray(factors) > 0):
        return np.asarray(factors, np.float32)
    return None


def _positions(mode: str, length: int, original: int, scale: np.float32) -> Floats:
    """Where the lines of the output lie in the input."""
    lines = np.arange(length, dtype=np.float32)
    return lines if scale == 1 else _COORDINATES[mode](lines, scale, original).astype(np.float32)


def _align_corners(lines: Floats, scale: np.float32, original: int) -> Floats:
    return lines * np.float32(original - 1) / np.float32(max(len(lines) - 1, 1))


def _pytorch_half_pixel(lines: Floats, scale: np.float32, original: int) -> Floats:
    return (lines + _HALF) / scale - _HALF if len(lines) > 1 else np.zeros(1, np.float32)


_COORDINATES: Mapping[str, Callable[[Floats, np.float32, int], Floats]] = MappingProxyType(
    {
        "half_pixel": lambda lines, scale, _: (lines + _HALF) / scale - _HALF,
        "asymmetric": lambda lines, scale, _: lines / scale,
        "align_corners": _align_corners,
        "pytorch_half_pixel": _pytorch_half_pixel,
    }
)


def _halves_down(values: Floats) -> Floats:
    """The nearest integers; positive halves become the lower one, negative ones that further from 0."""
    whole = np.trunc(values)
    away = np.where(values > 0, values - whole > _HALF, whole - values >= _HALF)
    return whole + np.where(away, np.sign(values), 0)


_NEAREST: Mapping[str, Callable[[Floats], Floats]] = MappingProxyType(
    {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": _halves_down,
    }
)


def _nearest(rounding: str) -> Callable[[Floats, int], SourceLines]:
    def line(positions: Floats, length: int) -> SourceLines:
        nearest = np.clip(_NEAREST[rounding](positions).astype(np.int64), 0, length - 1)
        return SourceLines(np.stack([nearest, nearest]), np.empty((2, 0), np.float32))

    return line


def _linear(positions: Floats, length: int) -> SourceLines:
    inside = np.clip(positions, np.float32(0), np.float32(length - 1))
    before = np.minimum(inside.astype(np.int64), length - 1)
    behind = np.minimum(before + 1, length - 1)
    weights = np.stack([np.abs(inside - behind.astype(np.float32)), np.abs(inside - before.astype(np.float32))])
    return SourceLines(np.stack([before, behind]), np.where(before == behind, _HALF, weights))
