"""A calibrated model as a float network of standard operators, with a pair on every activation that is calibrated.

The network is written from the calibrated graph, not from the source: the toolchain finds little left to rewrite, and
every tensor that it calibrates is there to carry a pair of ``QuantizeLinear`` and ``DequantizeLinear``. With
``calibration_type: load`` it takes 127 times the scale of a pair as the threshold; weights it quantises by their
largest magnitude per output channel, as ever.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.frontend.prepared import take_out_preprocessing
from engine.frontend.trained import DEQUANTIZE, QUANTIZE
from engine.ir import HORIZON_DOMAIN, calibration_nodes, constant_of, read_calibration, shape_of
from engine.ops.foreign.composite import COMPOSITES, PREPROCESS, expand

OPSET = 11
"""Highest version of ONNX's operators that the toolchain takes."""
IR_VERSION = 6
"""That goes with it."""
INT8_STEPS = 127


def network_with_pairs(calibrated: ir.Model) -> ir.Model:
    """The network that the toolchain is given; ``calibrated`` is not changed.

    Preprocessing is left out, the toolchain adds it; a pair on the input of the network holds its threshold. Tensors
    keep their names, and so do nodes; what a calibration computes is called ``<tensor>_calibrated``.
    """
    model = calibrated.clone()
    for node in tuple(calibration_nodes(model)):
        if _is_left_out(node):
            _pass_by(model, node)
    take_out_preprocessing(model)
    _expand_composites(model)
    for node in tuple(calibration_nodes(model)):
        _write_pair(model, node)
    for node in tuple(model.graph):
        if node.op_type == "GlobalAveragePool":
            _write_as_mean(node)
    _without_marks(model)
    return model


def _is_left_out(calibration: ir.Node) -> bool:
    """Whether the toolchain calibrates it by itself: a weight or constant, pixels; or it is switched off."""
    if constant_of(calibration.inputs[0]) is not None or read_calibration(calibration).switch != "ON":
        return True
    return any(usage.node.op_type == PREPROCESS for usage in calibration.outputs[0].uses())


def _pass_by(model: ir.Model, calibration: ir.Node) -> None:
    source, result = calibration.inputs[0], calibration.outputs[0]
    if source is None:
        return
    name = result.name if result.is_graph_output() else source.name
    result.replace_all_uses_with(source, replace_graph_outputs=True)
    model.graph.remove(calibration, safe=True)
    source.name = name


def _expand_composites(model: ir.Model) -> None:
    """The standard nodes of every composite; the last has its name, which ``node_info`` may say."""
    for node in tuple(model.graph):
        if node.domain == HORIZON_DOMAIN and node.op_type in COMPOSITES:
            name = node.name
            expand(model.graph, node)[-1].name = name


def _write_pair(model: ir.Model, calibration: ir.Node) -> None:
    """A pair in the place of ``calibration``."""
    source, result = calibration.inputs[0], calibration.outputs[0]
    if source is None:
        return
    name, threshold = str(source.name), read_calibration(calibration).thresholds.max()
    parameters = [
        _constant(model, f"{name}_scale", np.asarray(scale_of(float(threshold)), np.float32)),
        _constant(model, f"{name}_zero_point", np.zeros((), np.int8)),
    ]
    integers = ir.Value(name=f"{name}_integers", type=ir.TensorType(ir.DataType.INT8), shape=source.shape)
    floats = ir.Value(name=result.name, type=source.type, shape=source.shape)
    pair = [
        ir.node(QUANTIZE, [source, *parameters], outputs=[integers], name=f"{name}_{QUANTIZE}"),
        ir.node(DEQUANTIZE, [integers, *parameters], outputs=[floats], name=f"{name}_{DEQUANTIZE}"),
    ]
    ir.convenience.replace_nodes_and_values(model.graph, calibration, [calibration], pair, [result], [floats])


def scale_of(threshold: float) -> np.float32:
    """The scale of a pair of which the toolchain takes 127 times as threshold."""
    return np.float32(threshold / INT8_STEPS)


def _constant(model: ir.Model, name: str, array: NDArray[np.generic]) -> ir.Value:
    tensor = ir.tensor(array, name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
    model.graph.register_initializer(value)
    return value


def _write_as_mean(pool: ir.Node) -> None:
    """``GlobalAveragePool`` as the ``ReduceMean`` that the toolchain turns into it.

    The result of a pool whose input has a pair takes the input's threshold before it takes that of its own pair: a
    ``Requantize`` too many in front of what reads it (``mobilenet_v2``, ``shufflenet_v2``). Behind a mean it does not.
    """
    source = pool.inputs[0]
    if source is None or pool.graph is None:
        return
    axes = list(range(2, len(shape_of(source))))
    result = pool.outputs[0]
    value = ir.Value(name=result.name, type=result.type, shape=result.shape)
    mean = ir.node("ReduceMean", [source], {"axes": axes, "keepdims": 1}, outputs=[value], name=pool.name)
    ir.convenience.replace_nodes_and_values(pool.graph, pool, [pool], [mean], [result], [value])


def _without_marks(model: ir.Model) -> None:
    """Take out what only ptqlab reads, and say the versions that the toolchain takes."""
    model.metadata_props.clear()
    for node in model.graph:
        node.metadata_props.clear()
    model.opset_imports.pop(HORIZON_DOMAIN, None)
    model.opset_imports[""] = OPSET
    model.ir_version = IR_VERSION
