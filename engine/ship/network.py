"""A calibrated model as a network of standard operators that carries its thresholds, for ``calibration_type: load``.

The network is written from the calibrated graph, not from the source: the toolchain finds little left to rewrite, and
every tensor that it calibrates is there. Thresholds travel in two forms. A pair of ``QuantizeLinear`` and
``DequantizeLinear`` of int8 with a scalar scale, which the toolchain documents as a model from quantisation-aware
training: 127 times the scale is the threshold. And ``HzCalibration``, as the toolchain's own calibrated models have it:
in a network that holds a pair its thresholds are taken as they stand, also for weights, int16, uint8 and one per
channel; in one without any pair all of them become 1.0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.methods.folding import INT8_STEPS, fold_channel_scales
from engine.calibrate.methods.thresholds import largest_weights
from engine.frontend.prepared import INT8, take_out_preprocessing
from engine.frontend.trained import DEQUANTIZE, QUANTIZE
from engine.ir import (
    HORIZON_DOMAIN,
    HORIZON_VERSION,
    calibration_nodes,
    constant_of,
    read_calibration,
)
from engine.ops.foreign.composite import COMPOSITES, PREPROCESS, CompositeExpansion, expand, expand_as
from engine.ship.opset import give_regions, write_as_opset_11
from engine.ship.record import NotCarried

IR_VERSION = 6
"""IR version that goes with opset 11."""


def network_of(calibrated: ir.Model, *, documented: bool = False) -> ir.Model:
    """The network that the toolchain is given; ``calibrated`` is not changed.

    Preprocessing is left out, the toolchain adds it. Tensors and nodes keep their names.

    Args:
        calibrated: with thresholds.
        documented: whether only pairs are written, which is what the documents of the S100 describe: weights are then
            quantised by their largest magnitude per channel.

    Raises:
        ShipError: an operator needs a newer opset than the toolchain takes.
    """
    model = calibrated.clone()
    for node in tuple(calibration_nodes(model)):
        if _is_of_pixels(node):
            _pass_by(model, node)
    take_out_preprocessing(model)
    give_regions(model)
    _expand_composites(model)
    fold_channel_scales(model)
    _write_thresholds(model, documented=documented)
    write_as_opset_11(model)
    _without_marks(model)
    return model


def carries_pair(calibrated: ir.Model) -> bool:
    """Whether a tensor is there that a pair can stand on: an activation of int8 with one threshold."""
    return any(_can_carry(node) and not _is_of_pixels(node) for node in calibration_nodes(calibrated))


def _is_of_pixels(calibration: ir.Node) -> bool:
    """Whether it is of what the preprocessing reads: pixels, its weight."""
    return any(usage.node.op_type == PREPROCESS for usage in calibration.outputs[0].uses())


def not_carried(calibrated: ir.Model, network: ir.Model) -> tuple[NotCarried, ...]:
    """What ``network``, made by :func:`network_of` of ``calibrated``, states otherwise than it."""
    found = []
    expected = {str(node.outputs[0].name): node for node in calibration_nodes(calibrated)}
    for node in network.graph:
        scale = constant_of(node.inputs[1]) if node.op_type == DEQUANTIZE else None
        if scale is None:
            continue
        calibration = expected[str(node.outputs[0].name)]
        wanted, stated = float(read_calibration(calibration).thresholds[0]), stated_threshold(float(scale))
        if stated != wanted:
            name = None if calibration.inputs[0] is None else calibration.inputs[0].name
            cost = f"{wanted!r} becomes {stated!r}"
            found.append(NotCarried(what=f"threshold of {name}", reason="127 times no float32 scale is it", cost=cost))
    kept = {node.name for node in calibration_nodes(network)}
    for node in calibration_nodes(calibrated):
        weight = node.inputs[0]
        if weight is None or constant_of(weight) is None or node.name in kept or _is_of_pixels(node):
            continue
        largest = largest_weights(node)
        different = int((largest != read_calibration(node).thresholds).sum())
        if different:
            reason = "the documents of this march have thresholds of activations alone"
            cost = f"{different} of {largest.size} channels are quantised by their largest magnitude"
            found.append(NotCarried(what=f"thresholds of weight {weight.name}", reason=reason, cost=cost))
    return tuple(found)


def stated_threshold(scale: float) -> float:
    """The threshold that a pair with ``scale`` states: 127 times it, rounded to float32."""
    return float(np.float32(INT8_STEPS * np.float64(np.float32(scale))))


def _write_thresholds(model: ir.Model, *, documented: bool) -> None:
    """A pair on one tensor that can carry it, or on all; the other calibrations stay as they are."""
    nodes = tuple(calibration_nodes(model))
    paired = [node for node in nodes if read_calibration(node).switch == "ON" and _can_carry(node)]
    if not documented:
        paired = _most_exact(paired)
    for node in nodes:
        is_constant = constant_of(node.inputs[0]) is not None
        if read_calibration(node).switch != "ON" or (documented and is_constant):
            _pass_by(model, node)
        elif node in paired:
            _write_pair(model, node)


def _can_carry(calibration: ir.Node) -> bool:
    """Whether a pair can state it: an activation of int8 with one threshold."""
    found = read_calibration(calibration)
    return constant_of(calibration.inputs[0]) is None and found.qtype == INT8 and found.thresholds.size == 1


def _most_exact(nodes: Sequence[ir.Node]) -> list[ir.Node]:
    """The one of ``nodes`` that gets the pair.

    The first where that is an input's, at which the toolchain looks for the threshold of its preprocessing; else the
    first that a float32 scale states exactly, as it does 99.4 % of thresholds.
    """
    if not nodes or (nodes[0].inputs[0] is not None and nodes[0].inputs[0].is_graph_input()):
        return list(nodes[:1])
    exact = [node for node in nodes if stated_threshold(_scale(node)) == read_calibration(node).thresholds[0]]
    return list((exact or nodes)[:1])


def _scale(calibration: ir.Node) -> float:
    return float(read_calibration(calibration).thresholds[0]) / INT8_STEPS


def _pass_by(model: ir.Model, calibration: ir.Node) -> None:
    source, result = calibration.inputs[0], calibration.outputs[0]
    if source is None:
        return
    name = result.name if result.is_graph_output() else source.name
    result.replace_all_uses_with(source, replace_graph_outputs=True)
    model.graph.remove(calibration, safe=True)
    source.name = name


def _write_pair(model: ir.Model, calibration: ir.Node) -> None:
    """A pair in the place of ``calibration``."""
    source, result = calibration.inputs[0], calibration.outputs[0]
    if source is None:
        return
    name = str(source.name)
    parameters = [
        _constant(model, f"{name}_scale", np.asarray(_scale(calibration), np.float32)),
        _constant(model, f"{name}_zero_point", np.zeros((), np.int8)),
    ]
    integers = ir.Value(name=f"{name}_integers", type=ir.TensorType(ir.DataType.INT8), shape=source.shape)
    floats = ir.Value(name=result.name, type=source.type, shape=source.shape)
    pair = [
        ir.node(QUANTIZE, [source, *parameters], outputs=[integers], name=f"{name}_{QUANTIZE}"),
        ir.node(DEQUANTIZE, [integers, *parameters], outputs=[floats], name=f"{name}_{DEQUANTIZE}"),
    ]
    ir.convenience.replace_nodes_and_values(model.graph, calibration, [calibration], pair, [result], [floats])


def _constant(model: ir.Model, name: str, array: NDArray[np.generic]) -> ir.Value:
    tensor = ir.tensor(array, name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
    model.graph.register_initializer(value)
    return value


def _expand_composites(model: ir.Model) -> None:
    """The standard nodes of every composite; the last has its name, which ``node_info`` may say."""
    for node in tuple(model.graph):
        if node.domain == HORIZON_DOMAIN and node.op_type in COMPOSITES:
            name = node.name
            written = _AS_READ.get(node.op_type)
            nodes = expand(model.graph, node) if written is None else expand_as(model.graph, node, written)
            nodes[-1].name = name


def _hard_swish(expansion: CompositeExpansion, inputs: Sequence[ir.Value]) -> None:
    expansion.add("Mul", inputs[0], expansion.add("HardSigmoid", inputs[0], alpha=1 / 6))


def _gelu(expansion: CompositeExpansion, inputs: Sequence[ir.Value]) -> None:
    erf = expansion.add("Erf", expansion.add("Div", inputs[0], expansion.scalar(math.sqrt(2))))
    doubled = expansion.add("Mul", inputs[0], expansion.add("Add", erf, expansion.scalar(1.0)))
    expansion.add("Mul", doubled, expansion.scalar(0.5))


_AS_READ = MappingProxyType({"HzHardSwish": _hard_swish, "HzGelu": _gelu})
"""Composites that the toolchain knows in another form than ptqlab expands them to (``mobilenet_v3``, ``mixer``)."""


def _without_marks(model: ir.Model) -> None:
    """Take out what only ptqlab reads, and say the versions that the toolchain takes."""
    model.metadata_props.clear()
    for node in model.graph:
        node.metadata_props.clear()
    model.opset_imports.pop(HORIZON_DOMAIN, None)
    if any(node.domain == HORIZON_DOMAIN for node in model.graph):
        model.opset_imports[HORIZON_DOMAIN] = HORIZON_VERSION
    model.ir_version = IR_VERSION
