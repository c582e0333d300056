"""Rounding of weights by what it does to the result of their convolution, instead of to the nearest integer.

For each output channel the integers q are sought that make the mean of ``((w - s q) x)^2`` small over the calibration
data, where x are the quantised inputs. Columns are rounded one after the other and the error of each is spread over
those not rounded yet, by the inverse of the inputs' second moments (Frantar et al., GPTQ, 2022). The result is a weight
that lies on the integer grid it had before: thresholds stay as they are, and the integers are legal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.data.samples import finite_samples
from engine.calibrate.data.sources import CalibrationData
from engine.calibrate.methods.sensitivity import calibrations_by_node
from engine.floats.float_model import FloatSession
from engine.ir import (
    attribute,
    calibration_of,
    constant_of,
    is_calibration,
    node_by_name,
    read_calibration,
    set_constant,
)

Array = NDArray[Any]
Float64 = NDArray[np.float64]

ROUNDING_SAMPLES = 16
"""Samples that second moments are taken over."""

MAX_COLUMNS = 4608
"""Weights per output channel beyond which a convolution keeps the nearest integers: moments grow with the square."""

MOMENT_LIMIT = 512 << 20
"""Bytes of moments held at a time; convolutions beyond it take another pass over the samples."""

_DAMPING = 0.01
"""Share of the mean second moment added to each, so that the inverse exists."""

_LARGEST = 127


@dataclass(frozen=True)
class _Layer:
    """A convolution to round: its weight, shape (O, I / g, ...), with its ``HzCalibration`` and scales, shape (O,)."""

    node: ir.Node
    calibration: ir.Node
    weight: NDArray[np.float32]
    scales: NDArray[np.float32]
    group: int

    @property
    def columns(self) -> int:
        """Weights per output channel."""
        return int(np.prod(self.weight.shape[1:]))

    @property
    def moment_bytes(self) -> int:
        """Size of the second moments."""
        return self.group * self.columns**2 * 8


def round_weights(
    calibrated: ir.Model, data: CalibrationData, samples: int = ROUNDING_SAMPLES, *, threads: int | None = None
) -> ir.Model:
    """A copy of ``calibrated`` whose convolutions' weights are rounded for least error of their results.

    Convolutions whose input has a scale per channel, or with more than :data:`MAX_COLUMNS` weights per output channel,
    keep theirs; so does every output channel that would not gain.

    Args:
        calibrated: model with thresholds; not changed.
        data: calibration data; of the first ``samples`` samples, the finite ones are used.
        samples: at least 1.
        threads: CPU threads; None for all.
    """
    model = calibrated.clone()
    for layers in _batches(list(_layers(model))):
        moments = _moments(calibrated, layers, data, min(samples, len(data)), threads)
        for name, layer in layers.items():
            set_constant(model.graph, layer.calibration, 0, rounded(layer.weight, layer.scales, moments[name]))
    return model


def rounded(weight: Array, scales: Array, moments: Float64) -> NDArray[np.float32]:
    """``weight`` on its integer grid.

    Args:
        weight: shape (O, ...), the output channels of one group after those of the other.
        scales: shape (O,): of the integers, which are within -127..127.
        moments: second moments of the inputs, shape (groups, columns, columns), columns in the order of the weight's.

    Returns:
        float32, shape of ``weight``: integer multiples of ``scales``.
    """
    groups, columns, _ = moments.shape
    steps = scales.astype(np.float64).reshape(groups, -1)
    wanted = weight.astype(np.float64).reshape(groups, -1, columns) / steps[..., np.newaxis]
    nearest = np.clip(np.rint(wanted), -_LARGEST, _LARGEST)
    found = _spread(wanted, moments)
    gains = _loss(found - wanted, moments) < _loss(nearest - wanted, moments)
    integers = np.where(gains[..., np.newaxis], found, nearest)
    return np.asarray((integers * steps[..., np.newaxis]).reshape(weight.shape), np.float32)


def _spread(wanted: Float64, moments: Float64) -> Float64:
    """Integers for ``wanted``, shape (groups, channels, columns): columns of large moments first."""
    columns = wanted.shape[2]
    diagonal = np.einsum("gii->gi", moments)
    order = np.argsort(-diagonal, axis=1)
    ordered = np.take_along_axis(np.take_along_axis(moments, order[:, :, np.newaxis], 1), order[:, np.newaxis], 2)
    damping = _DAMPING * diagonal.mean(axis=1) + np.finfo(np.float32).tiny
    inverse = np.linalg.inv(ordered + damping[:, np.newaxis, np.newaxis] * np.eye(columns))
    upper = np.linalg.cholesky(inverse).transpose(0, 2, 1)
    left = np.take_along_axis(wanted, np.broadcast_to(order[:, np.newaxis], wanted.shape), 2)
    result = np.empty_like(left)
    for column in range(columns):
        result[..., column] = np.clip(np.rint(left[..., column]), -_LARGEST, _LARGEST)
        error = (left[..., column] - result[..., column]) / upper[:, column, column, np.newaxis]
        left[..., column:] -= error[..., np.newaxis] * upper[:, np.newaxis, column, column:]
    back = np.empty_like(result)
    np.put_along_axis(back, np.broadcast_to(order[:, np.newaxis], wanted.shape), result, 2)
    return back


def _loss(error: Float64, moments: Float64) -> Float64:
    """Mean square of ``error`` times the inputs, shape (groups, channels)."""
    return np.asarray(((error @ moments) * error).sum(axis=2))


def _layers(model: ir.Model) -> Iterator[_Layer]:
    for node in node_by_name(model, list(calibrations_by_node(model))).values():
        if node.op_type != "Conv" or attribute(node, "auto_pad", "NOTSET") != "NOTSET" or node.inputs[1] is None:
            continue
        source = node.inputs[1].producer()
        if source is None or not is_calibration(source):
            continue
        activation, weight = calibration_of(node.inputs[0]), constant_of(source.inputs[0])
        if activation is None or weight is None or activation.scales.size > 1 or weight.ndim != 4:
            continue
        scales = read_calibration(source).scales
        layer = _Layer(node, source, np.asarray(weight, np.float32), scales, attribute(node, "group", 1))
        if layer.columns <= MAX_COLUMNS:
            yield layer


def _batches(layers: list[_Layer]) -> Iterator[dict[str, _Layer]]:
    """The layers by name, as many at a time as the moments of which may be held."""
    batch: dict[str, _Layer] = {}
    for layer in layers:
        if batch and sum(other.moment_bytes for other in batch.values()) + layer.moment_bytes > MOMENT_LIMIT:
            yield batch
            batch = {}
        batch[str(layer.node.name)] = layer
    if batch:
        yield batch


def _moments(
    calibrated: ir.Model, layers: Mapping[str, _Layer], data: CalibrationData, samples: int, threads: int | None
) -> dict[str, Float64]:
    """Second moments of every layer's quantised inputs."""
    inputs = {
        name: str(layer.node.inputs[0].name) for name, layer in layers.items() if layer.node.inputs[0] is not None
    }
    session = FloatSession(calibrated, list(dict.fromkeys(inputs.values())), threads=threads)
    sums = {name: np.zeros((layer.group, layer.columns, layer.columns)) for name, layer in layers.items()}
    for feed in finite_samples(data, range(samples)):
        found = session.run(feed)
        for name, layer in layers.items():
            columns = input_columns(found[inputs[name]], layer.node, layer.weight.shape, layer.group)
            sums[name] += columns @ columns.transpose(0, 2, 1)
    return {name: total / samples for name, total in sums.items()}


def input_columns(x: Array, node: ir.Node, weight_shape: tuple[int, ...], group: int) -> Array:
    """What the convolution ``node`` multiplies its weights with: shape (groups, weights per channel, positions).

    Args:
        x: input, shape (N, C, H, W).
        node: with the attributes of a ``Conv``.
        weight_shape: (O, C / groups, kh, kw).
        group: number of groups.
    """
    pads = attribute(node, "pads", (0, 0, 0, 0))
    steps = attribute(node, "strides", (1, 1))
    spacing = attribute(node, "dilations", (1, 1))
    kernel = weight_shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    extent = tuple(step * (size - 1) + 1 for size, step in zip(kernel, spacing, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(padded, extent, axis=(2, 3))
    windows = windows[:, :, :: steps[0], :: steps[1], :: spacing[0], :: spacing[1]]
    channels_first = windows.transpose(1, 4, 5, 0, 2, 3)
    return channels_first.reshape(group, int(np.prod(weight_shape[1:])), -1)
