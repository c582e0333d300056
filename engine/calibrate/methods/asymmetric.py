"""Option ``asymmetric``: eight bits for the values that exist of a tensor that is never negative
(reference/calibration.md 2).

Such a tensor is calibrated as ``uint8``, scale = threshold / 255. The BPU's arithmetic knows no zero points
(reference/arithmetic.md 0), so the integers that it sees are those less 128: :func:`to_signed` moves the offset
into the biases on both sides, exactly.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.forward.fake_quantization import fake_quantize
from engine.errors import UnsupportedError
from engine.ir import (
    MARK_FIXED,
    MARK_ON,
    MARK_TIE,
    QMAX,
    attribute,
    before_calibration,
    calibration_nodes,
    constant_of,
    is_calibration,
    read_calibration,
    shape_of,
)

UNSIGNED = "uint8"
SIGNED = "int8"
OFFSET = 128
"""What an unsigned integer exceeds the signed one by that stands for it."""


def unsigned_tensors(placed: ir.Model) -> frozenset[str]:
    """Names of the float tensors that ``asymmetric`` gives an unsigned type.

    These are results of a convolution with ``Relu``, or ``Clip`` from 0 on, that nothing reads but convolutions with
    one group and without padding (a padded zero would not be zero behind the offset). What is int16, tied to another
    tensor or of fixed threshold is left out.
    """
    ties = {node.metadata_props.get(MARK_TIE) for node in calibration_nodes(placed)}
    return frozenset(
        str(before_calibration(node.outputs[0]).name)
        for node in calibration_nodes(placed)
        if before_calibration(node.outputs[0]).name not in ties and _can_be_unsigned(node)
    )


def to_signed(calibrated: ir.Model) -> ir.Model:
    """The same function of the same integers, with offsets in biases in place of unsigned types.

    A tensor x of type ``uint8`` and scale s becomes x - 128 s of type ``int8``: the bias of the convolution that gives
    it falls by 128 s, saturation takes the place of its activation, and the biases of the convolutions that read it
    rise by 128 s times the sum of their quantised weights.

    Args:
        calibrated: model from :func:`engine.calibrate.calibrate`; not changed.

    Returns:
        A copy to quantise; ``calibrated`` without unsigned types is only copied.
    """
    model = calibrated.clone()
    for node in tuple(calibration_nodes(model)):
        if attribute(node, "qtype", SIGNED) == UNSIGNED:
            _shift(model.graph, node)
    return model


def _can_be_unsigned(calibration: ir.Node) -> bool:
    if {MARK_TIE, MARK_FIXED} & calibration.metadata_props.keys() or attribute(calibration, "qtype", SIGNED) != SIGNED:
        return False
    before = _convolution_and_activation(calibration)
    if before is None or not _is_read_by_convolutions(calibration):
        return False
    return all(node.metadata_props.get(MARK_ON) == "BPU" for node in (*before, *calibration.outputs[0].consumers()))


def _convolution_and_activation(calibration: ir.Node) -> tuple[ir.Node, ir.Node] | None:
    """The two nodes that give the tensor of ``calibration`` and nothing else, if it is made in this way."""
    tensor = before_calibration(calibration.outputs[0])
    activation = tensor.producer()
    if activation is None or not _is_non_negative(activation) or not _is_alone(tensor):
        return None
    before = activation.inputs[0]
    producer = None if before is None else before.producer()
    return (producer, activation) if producer is not None and producer.op_type == "Conv" and _is_alone(before) else None


def _is_read_by_convolutions(calibration: ir.Node) -> bool:
    users = calibration.outputs[0].consumers()
    if not users or calibration.outputs[0].is_graph_output():
        return False
    return all(
        user.op_type == "Conv"
        and attribute(user, "group", 1) == 1
        and attribute(user, "auto_pad", "NOTSET") in ("NOTSET", "VALID")
        and not any(attribute(user, "pads", ()))
        for user in users
    )


def _is_non_negative(node: ir.Node) -> bool:
    if node.op_type != "Clip":
        return node.op_type == "Relu"
    low = constant_of(node.inputs[1]) if len(node.inputs) > 1 else attribute(node, "min")
    return low is not None and float(np.asarray(low).reshape(())) == 0.0


def _is_alone(value: ir.Value | None) -> bool:
    """Whether one node reads ``value``, and nothing outside the graph."""
    return value is not None and len(value.consumers()) == 1 and not value.is_graph_output()


def _shift(graph: ir.Graph, calibration: ir.Node) -> None:
    """Let the unsigned ``calibration`` be a signed one of the shifted tensor."""
    scale = np.float32(read_calibration(calibration).scales[0])
    offset = np.float64(scale) * OFFSET
    producer, activation = _convolution_and_activation(calibration) or (None, None)
    if producer is None or activation is None or not _is_read_by_convolutions(calibration):
        raise UnsupportedError(
            f"node {calibration.name!r}: type {UNSIGNED} is for results of a convolution with Relu or Clip that only "
            "convolutions with one group and without padding read"
        )
    _add_to_bias(graph, producer, np.full(shape_of(activation.outputs[0])[1], -offset))
    _take_over_output(graph, producer, activation)
    calibration.attributes["qtype"] = ir.AttrString("qtype", SIGNED)
    calibration.attributes["thresholds"] = ir.AttrFloat32s("thresholds", [float(scale * np.float32(QMAX[SIGNED]))])
    calibration.attributes["scales"] = ir.AttrFloat32s("scales", [float(scale)])
    for user in calibration.outputs[0].consumers():
        _add_to_bias(graph, user, offset * _quantized_weight(user).astype(np.float64).sum(axis=(1, 2, 3)))


def _quantized_weight(node: ir.Node) -> NDArray[np.float32]:
    """The weight of a convolution as its integers stand for it."""
    value = node.inputs[1]
    producer = None if value is None else value.producer()
    if producer is None or not is_calibration(producer):
        return np.asarray(constant_of(value), np.float32)
    return fake_quantize(np.asarray(constant_of(producer.inputs[0])), read_calibration(producer))


def _add_to_bias(graph: ir.Graph, node: ir.Node, amount: NDArray[np.float64]) -> None:
    """Add ``amount``, one value per output channel, to the bias of ``node``, which gets one if it has none."""
    value = node.inputs[2] if len(node.inputs) > 2 else None
    found = constant_of(value)
    bias = (0.0 if found is None else found.astype(np.float64)) + amount
    set_constant(graph, node, 2, bias.astype(np.float32))


def set_constant(graph: ir.Graph, node: ir.Node, index: int, array: NDArray[np.float32]) -> None:
    """Let input ``index`` of ``node`` be the constant ``array`` under a name of its own; an unused old one goes."""
    old = node.inputs[index] if len(node.inputs) > index else None
    name = f"{node.name}_input_{index}" if old is None else str(old.name)
    while name in graph.initializers:
        name = f"{name}_changed"
    tensor = ir.tensor(np.asarray(array, np.float32), name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
    graph.register_initializer(value)
    node.resize_inputs(max(index + 1, len(node.inputs)))
    node.replace_input_with(index, value)
    if old is not None and old.is_initializer() and not old.uses():
        graph.initializers.pop(str(old.name), None)


def _take_over_output(graph: ir.Graph, producer: ir.Node, activation: ir.Node) -> None:
    """Let ``producer`` give what ``activation`` gave, under its name; ``activation`` goes."""
    result, name = activation.outputs[0], activation.outputs[0].name
    source = producer.outputs[0]
    result.replace_all_uses_with(source)
    graph.remove(activation, safe=True)
    source.name = name
