"""Models from quantisation-aware training, with pairs of ``QuantizeLinear`` and ``DequantizeLinear``.

The pairs are taken out, so that all stages see the float model; their scales become thresholds
(:mod:`engine.frontend.prepared`). A weight that the file holds as integers becomes the floats that they stand for.
PyTorch and TensorFlow export such models; the original refuses them, here ``calibration_type: load`` takes them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import UnsupportedError
from engine.frontend.prepared import INT8, remember
from engine.ir import UNSIGNED, attribute, constant_of

logger = logging.getLogger(__name__)

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
_CHANNELS = 1
"""Axis of the channels of an activation."""
_MIDDLE = 128
"""Zero point of uint8 that makes it int8."""


@dataclass(frozen=True)
class _Grid:
    """How integers stand for floats.

    Attributes:
        scales: float32, shape (1,) or (channels,).
        offset: zero point, the same for all channels.
        kind: numpy type of the integers.
        axis: of the channels.
    """

    scales: NDArray[np.float32]
    offset: int
    kind: np.dtype[Any]
    axis: int

    def threshold(self, node: ir.Node) -> tuple[list[float], str]:
        """Thresholds and the BPU's type.

        Raises:
            UnsupportedError: the BPU has no such integers.
        """
        signed = self.kind in (np.int8, np.int16) and self.offset == 0
        shifted = self.kind == np.uint8 and self.offset == _MIDDLE
        if signed or shifted:
            wide = self.kind == np.int16
            return _times(self.scales, 32767 if wide else 127), "int16" if wide else INT8
        if self.kind == np.uint8 and self.offset == 0:
            return _times(self.scales, 255), UNSIGNED
        raise UnsupportedError(
            f"node {node.name} ({node.op_type}): {self.kind.name} with zero point {self.offset}; the BPU has no zero "
            "points: train with symmetric int8 (or uint8 with zero point 0 or 128)"
        )

    def floats(self, integers: NDArray[Any]) -> NDArray[np.float32]:
        """What ``integers`` stand for."""
        shape = [1] * integers.ndim
        if self.scales.size > 1:
            shape[self.axis] = -1
        return ((integers.astype(np.float32) - self.offset) * self.scales.reshape(shape)).astype(np.float32)

    def integers(self, floats: NDArray[np.float32]) -> NDArray[Any]:
        """The nearest integers, half to even, saturated."""
        shape = [1] * floats.ndim
        if self.scales.size > 1:
            shape[self.axis] = -1
        limits = np.iinfo(self.kind)
        return np.asarray(np.clip(np.rint(floats / self.scales.reshape(shape)) + self.offset, limits.min, limits.max))


MARK_TRAINED = "hz.trained"
"""Metadata of a model: its file has pairs; empty, or why they cannot be taken out."""


def without_quantization(model: ir.Model) -> ir.Model:
    """``model`` without its pairs; as it is where there are none, or where one cannot be taken out.

    What happened is remembered: see :func:`why_not_trained`.
    """
    if not any(node.op_type == DEQUANTIZE for node in model.graph):
        return model
    copy = model.clone()
    try:
        take_out_quantization(copy)
    except UnsupportedError as error:
        model.metadata_props[MARK_TRAINED] = str(error)
        return model
    copy.metadata_props[MARK_TRAINED] = ""
    return copy


def why_not_trained(model: ir.Model, load: bool) -> str | None:
    """Why a model that brings pairs cannot be converted; ``None`` where it can, or brings none.

    Args:
        model: of any stage.
        load: whether ``calibration_type`` is ``load``.
    """
    found = model.metadata_props.get(MARK_TRAINED)
    if found is None:
        return None
    integer = sorted({node.op_type for node in model.graph if node.op_type.startswith("QLinear")})
    if integer:
        found = ", ".join(integer)
        return f"integer operators of ONNX Runtime: {found}; quantise with quant_format=QuantFormat.QDQ instead"
    if load:
        return found or None
    return (
        f"HorizonRT not support these cpu operators: {DEQUANTIZE}, {QUANTIZE}; calibration_type load takes their scales"
    )


def take_out_quantization(model: ir.Model) -> None:
    """Remove pairs of ``QuantizeLinear`` and ``DequantizeLinear`` of ``model``, in place, and remember their scales.

    Outputs of the model keep their names. Inputs and outputs that are integers, as in files made from TensorFlow
    Lite's, become the floats that these stand for.

    Raises:
        UnsupportedError: a scale is no constant, or the BPU has no such integers; names the node.
    """
    given: dict[str, list[float]] = {}
    types: dict[str, str] = {}
    for node in [node for node in model.graph if node.op_type == DEQUANTIZE]:
        source, result = node.inputs[0], node.outputs[0]
        if source is None:
            continue
        quantizer = source.producer()
        integers = constant_of(source)
        if integers is not None:
            grid = _grid(node, integers.dtype)
            _hold(model, node, grid.floats(integers), grid, given)
        elif quantizer is not None and quantizer.op_type == QUANTIZE and quantizer.inputs[0] is not None:
            grid, floats = _grid(quantizer, None), constant_of(quantizer.inputs[0])
            _check_pair(grid, _grid(node, grid.kind), node)
            if floats is not None:
                _hold(model, node, grid.floats(grid.integers(np.asarray(floats, np.float32))), grid, given)
                continue
            if grid.scales.size > 1 and grid.axis != _CHANNELS:
                raise UnsupportedError(
                    f"node {quantizer.name} ({quantizer.op_type}): scales along axis {grid.axis}; a tensor has one "
                    f"scale, or one per channel (axis {_CHANNELS})"
                )
            values, kind = grid.threshold(quantizer)
            name = _pass_by(node, quantizer.inputs[0], result)
            given[name] = values
            types |= {name: kind} if kind != INT8 else {}
            model.graph.remove(node, safe=True)
        elif source.is_graph_input():
            grid = _grid(node, None if source.dtype is None else source.dtype.numpy())
            given[str(source.name)], kind = grid.threshold(node)
            types |= {str(source.name): kind} if kind != INT8 else {}
            source.type = ir.TensorType(ir.DataType.FLOAT)
            result.replace_all_uses_with(source, replace_graph_outputs=True)
            model.graph.remove(node, safe=True)
            logger.info("input %s holds integers in the file; here it is what they stand for, floats", source.name)
    for node in [node for node in model.graph if node.op_type == QUANTIZE]:
        written, read = node.outputs[0], node.inputs[0]
        if written.is_graph_output() and not written.uses() and read is not None and not read.is_graph_input():
            given[str(written.name)], kind = _grid(node, None).threshold(node)
            types |= {str(written.name): kind} if kind != INT8 else {}
            if not read.is_graph_output():
                read.name = written.name
            read.type = ir.TensorType(ir.DataType.FLOAT)
            written.replace_all_uses_with(read, replace_graph_outputs=True)
            logger.info("output %s holds integers in the file; here it is what they stand for, floats", read.name)
        if not node.outputs[0].uses() and not node.outputs[0].is_graph_output():
            model.graph.remove(node, safe=True)
    remember(model, given, types)


def _pass_by(node: ir.Node, source: ir.Value, result: ir.Value) -> str:
    """Let all readers of ``result`` read ``source``; the name of the tensor, which is an output's where it is one."""
    is_output = result.is_graph_output() and source.producer() is not None and not source.is_graph_output()
    name = str(result.name if is_output else source.name)
    if source.type is None:  # within a file types are optional, of an output they are not
        source.type, source.shape = ir.TensorType(ir.DataType.FLOAT), result.shape
    result.replace_all_uses_with(source, replace_graph_outputs=True)
    source.name = name
    return name


def _hold(
    model: ir.Model, node: ir.Node, array: NDArray[np.float32], grid: _Grid, given: dict[str, list[float]]
) -> None:
    """Let a constant take the place of ``node``; thresholds are those of weights, biases (int32) have none."""
    result = node.outputs[0]
    name = str(result.name)
    tensor = ir.tensor(array, name=name)
    stand_in = ir.Value(
        name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(array.shape), const_value=tensor
    )
    result.replace_all_uses_with(stand_in, replace_graph_outputs=True)
    model.graph.remove(node, safe=True)
    model.graph.register_initializer(stand_in)
    # The BPU has a threshold per output channel, which comes first; scales along another axis give the floats alone.
    if grid.kind != np.int32 and (grid.scales.size == 1 or grid.axis == 0):
        given[name] = grid.threshold(node)[0]


def _check_pair(first: _Grid, second: _Grid, node: ir.Node) -> None:
    """A pair whose halves differ is a change of scale, which is no quantisation."""
    same = np.array_equal(first.scales, second.scales) and first.offset == second.offset
    if not same or (first.scales.size > 1 and first.axis != second.axis):
        raise UnsupportedError(
            f"node {node.name} ({node.op_type}): its scale is not that of the QuantizeLinear before it"
        )


def _grid(node: ir.Node, kind: np.dtype[Any] | None) -> _Grid:
    scales = constant_of(node.inputs[1])
    zero = (
        constant_of(node.inputs[2])
        if len(node.inputs) > 2 and node.inputs[2] is not None
        else np.zeros(1, kind or np.uint8)
    )
    if scales is None or zero is None:
        raise UnsupportedError(f"node {node.name} ({node.op_type}): its scale and zero point must be constants")
    offsets = np.unique(zero)
    if offsets.size != 1:
        raise UnsupportedError(f"node {node.name} ({node.op_type}): its channels have different zero points")
    flat = np.asarray(scales, np.float32).reshape(-1)
    return _Grid(flat, int(offsets[0]), np.dtype(kind or zero.dtype), int(attribute(node, "axis", 1)))


def _times(scales: NDArray[np.float32], steps: int) -> list[float]:
    return [float(value) for value in scales * np.float32(steps)]
