"""How far the nodes of a quantised graph may be from the float nodes that they stand for, on the same input integers.

Every operator says it of itself; :mod:`engine.ops.core.bounds` says what a bound is and how it is found. Here the float
nodes, scales and tensors of every quantised node are put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.chips import load_chip
from engine.errors import ModelError
from engine.facts.chains import chains
from engine.ir import (
    HORIZON_DOMAIN,
    QMAX,
    before_calibration,
    calibration_nodes,
    calibration_of,
    constant_of,
    is_calibration,
    read_calibration,
)
from engine.ops.core.bounds import BITS, Case, Float64, IntegerOperand, Unbounded, float64
from engine.ops.core.float_nodes import given
from engine.ops.registry import operator, read_attributes
from engine.place import place_recorded
from engine.place.sums import sums_as_convolutions


@dataclass(frozen=True)
class NodeBound:
    """The bound of one quantised node.

    Attributes:
        node: the quantised node.
        chain: the float nodes that it stands for, of the calibrated model that was compared, in order.
        operands: its integer activations, in the order in which the chain reads them.
        scale: value of one output unit, shape (1,), or (channels,) for an int32 accumulator.
        bound: float64, shape (1,) or (channels,), in units of the float tensor.
    """

    node: ir.Node
    chain: Sequence[ir.Node]
    operands: Sequence[IntegerOperand]
    scale: Float64
    bound: Float64


def node_error_bounds(calibrated: ir.Model, quantized: ir.Model, march: str) -> list[NodeBound]:
    """Bounds of all BPU nodes of ``quantized`` whose operator has one.

    Args:
        calibrated: the calibrated model, ours or the original's.
        quantized: its quantised form.
        march: ``bernoulli2``, ``bayes`` or ``bayes-e``.

    Returns:
        One bound per quantised node in graph order. Nodes of operators that say why they have none
        (:class:`~engine.ops.core.bounds.Unbounded`) are left out, and so are standard ones, the last of several that
        stand for one float node (an average that is taken in steps), and those that read or give an unsigned tensor:
        bounds know no offsets.
    """
    rules = load_chip(march)
    source = calibrated.clone()
    place_recorded(source, rules)
    sums_as_convolutions(source, rules)
    scales = _Scales(source, quantized)
    by_name = {str(node.name): node for node in quantized.graph}
    found = []
    for chain in chains(source, rules):
        node = by_name.get(str(chain[0].name))
        if node is None or node.domain != HORIZON_DOMAIN or any(map(_is_unsigned, chain)):
            continue
        operands = [scales.operand(value) for value in node.inputs if value is not None and constant_of(value) is None]
        if not {operand.tensor for operand in operands} <= _tensors_of(chain):
            continue
        case = Case(node, read_attributes(node), chain, operands, scales.of(node.outputs[0]))
        bound = operator(node.op_type).error_bound(case)
        if not isinstance(bound, Unbounded):
            found.append(NodeBound(node, chain, operands, case.scale, np.atleast_1d(bound)))
    return found


def _tensors_of(chain: Sequence[ir.Node]) -> set[str]:
    """What the nodes of ``chain`` read, without calibration."""
    return {str(before_calibration(value).name) for node in chain for value in node.inputs if value is not None}


def _is_unsigned(node: ir.Node) -> bool:
    found = [calibration_of(value) for value in node.inputs if value is not None]
    found += [read_calibration(reader) for reader in node.outputs[0].consumers() if is_calibration(reader)]
    return any(calibration is not None and calibration.offset for calibration in found)


class _Scales:
    """Scale and float tensor of every integer tensor of a quantised graph."""

    def __init__(self, calibrated: ir.Model, quantized: ir.Model) -> None:
        self._calibrations = {
            str(before_calibration(node.outputs[0]).name): read_calibration(node)
            for node in calibration_nodes(calibrated)
        }
        self._dequantizers = {
            _untransposed(given(node, 0)): node for node in quantized.graph if node.op_type == "HzDequantize"
        }

    def operand(self, value: ir.Value) -> IntegerOperand:
        """``value`` as an operand; layout transposes in front of it are looked through."""
        source = _untransposed(value)
        bits = BITS[ir.DataType(value.dtype)] if value.dtype is not None else 8
        node = source.producer()
        named = _untransposed(given(node, 0)) if node is not None and node.op_type == "HzRequantize" else source
        name = str(named.name).removesuffix("_quantized").removesuffix("_calibrated")
        return IntegerOperand(value, name, float(self.of(source)[0]), float(1 << (bits - 1)))

    def of(self, value: ir.Value) -> Float64:
        """Scale of an integer tensor."""
        source = _untransposed(value)
        node = source.producer()
        if node is None:
            return np.ones(1)
        if node.op_type == "HzQuantize":
            return float64(constant_of(node.inputs[1]))
        if source.dtype == ir.DataType.INT32:
            return float64(constant_of(self._dequantizer(source).inputs[1]))
        if node.op_type == "HzRequantize":
            return self._requantized(node)
        calibration = self._calibrations.get(str(source.name).removesuffix("_quantized"))
        return self.of(given(node, 0)) if calibration is None else calibration.scales.astype(np.float64)

    def _dequantizer(self, source: ir.Value) -> ir.Node:
        """What dequantises an int32 tensor: its reader, or one behind nodes that only move it."""
        left = [source]
        while left:
            value = left.pop()
            if value in self._dequantizers:
                return self._dequantizers[value]
            left += [result for node in value.consumers() for result in node.outputs]
        raise ModelError(f"tensor {source.name}: int32 that nothing dequantises")

    def _requantized(self, node: ir.Node) -> Float64:
        """Scale behind an HzRequantize: the calibrated one nearest to what its multiplier and shift say."""
        attributes = read_attributes(node)
        ratio = float(attributes["output_scale"][0]) * 2.0 ** -float(attributes["output_right_shift"][0])
        estimate = float(self.of(given(node, 0))[0]) / ratio
        thresholds = np.array([float(found.thresholds[0]) for found in self._calibrations.values()], np.float32)
        candidates = np.concatenate([thresholds / np.float32(QMAX[qtype]) for qtype in ("int8", "int16")])
        return candidates[[np.argmin(np.abs(candidates - estimate))]].astype(np.float64)


def _untransposed(value: ir.Value) -> ir.Value:
    node = value.producer()
    while node is not None and node.op_type == "Transpose" and "LayoutConvert" in str(node.name):
        value = given(node, 0)
        node = value.producer()
    return value
