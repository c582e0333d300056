"""Option ``asymmetric``: eight bits for the values that exist of a tensor that is never negative
(reference/calibration.md 2).

Such a tensor is calibrated as ``uint8``, scale = threshold / 255. The BPU's arithmetic knows no zero points
(reference/arithmetic.md 0), so the integers that it holds are those less 128
(:attr:`engine.ir.Calibration.offset`); :mod:`engine.ops.conv` moves the offset into the biases on both sides.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.chips import Chip, load_chip
from engine.facts.devices import on_bpu
from engine.graph import sole_reader
from engine.graph.scales import scale_source
from engine.ir import (
    MARK_MARCH,
    attribute,
    before_calibration,
    calibration_nodes,
    constant_of,
    is_calibration,
    shape_of,
)
from engine.ops.add import runs_as_convolution
from engine.ops.core.float_nodes import given

SIGNED = "int8"


def unsigned_tensors(placed: ir.Model) -> frozenset[str]:
    """Names of the float tensors that ``asymmetric`` gives an unsigned type.

    These are results of ``Relu``, or of ``Clip`` from 0 on, of a convolution or of its sum with another tensor,
    that nothing reads but convolutions, not depthwise ones that pad, the sum in one, also of two maps on bernoulli2
    (seven of seven in one network drawn), and ``MaxPool`` whose result is again read so. What is int16, tied to
    another tensor or of fixed threshold is left out. Shown by five networks (ResNet, U-Net, YOLOv5 with Relu, DB
    and ``min_asym``), 59 tensors of 59, and 29 branches each on bernoulli2 and bayes-e; ConvTranspose, Concat,
    depthwise convolutions that pad and global pools as readers keep a tensor signed there. Convolutions on the CPU
    count as those of the BPU.
    """
    march = placed.metadata_props.get(MARK_MARCH)
    chip = None if march is None else load_chip(march)
    tied: dict[str, set[str]] = {}
    for node in calibration_nodes(placed):
        root = scale_source(node).of
        if root is not None:
            tied.setdefault(root, set()).add(_name(node))
    found: set[str] = set()
    for node in calibration_nodes(placed):
        pooled = [_name(after) for after in _pooled(node)]
        if tied.get(_name(node), set()) <= set(pooled) and _can_be_unsigned(node, chip):
            found |= {_name(node), *pooled}
    return frozenset(found)


def _name(calibration: ir.Node) -> str:
    return str(before_calibration(calibration.outputs[0]).name)


def _can_be_unsigned(calibration: ir.Node, chip: Chip | None) -> bool:
    source = scale_source(calibration)
    own = source.of is None and source.fixed is None
    if not own or attribute(calibration, "qtype", SIGNED) != SIGNED:
        return False
    before = _convolution_and_activation(calibration)
    if before is None or not all(_is_read_well(node, chip) for node in (calibration, *_pooled(calibration))):
        return False
    readers = [user for node in (calibration, *_pooled(calibration)) for user in node.outputs[0].consumers()]
    return all(on_bpu(node) or node.op_type == "Conv" for node in (*before[:1], *readers))


def _convolution_and_activation(calibration: ir.Node) -> tuple[ir.Node, ir.Node] | None:
    """The nodes that give the tensor of ``calibration`` and nothing else, if they are such; a sum may stand between."""
    tensor = before_calibration(calibration.outputs[0])
    activation = tensor.producer()
    if activation is None or not _is_non_negative(activation) or sole_reader(tensor) is None:
        return None
    before = activation.inputs[0]
    convolution = _lone_convolution(before) or _summed_convolution(before)
    return None if convolution is None else (convolution, activation)


def _lone_convolution(value: ir.Value | None) -> ir.Node | None:
    """The convolution that gives ``value``, which nothing reads but one node."""
    producer = None if value is None else value.producer()
    if value is None or producer is None or producer.op_type != "Conv":
        return None
    return None if sole_reader(value) is None else producer


def _summed_convolution(value: ir.Value | None) -> ir.Node | None:
    """The convolution that gives an operand of the sum ``value``, which nothing reads but one node."""
    producer = None if value is None else value.producer()
    if value is None or producer is None or producer.op_type != "Add" or sole_reader(value) is None:
        return None
    return next((found for operand in producer.inputs if (found := _lone_convolution(operand)) is not None), None)


def _pooled(calibration: ir.Node) -> list[ir.Node]:
    """The calibrations of maxima of the tensor of ``calibration``."""
    return [
        after
        for pool in calibration.outputs[0].consumers()
        if pool.op_type == "MaxPool"
        for after in pool.outputs[0].consumers()
        if is_calibration(after)
    ]


def _is_read_well(calibration: ir.Node, chip: Chip | None) -> bool:
    """Whether an offset of the tensor of ``calibration`` can be made up for in all that reads it."""
    users = calibration.outputs[0].consumers()
    if not users or calibration.outputs[0].is_graph_output():
        return False
    return all(_takes_offset(user, calibration.outputs[0], chip) for user in users)


def _takes_offset(user: ir.Node, value: ir.Value, chip: Chip | None) -> bool:
    match user.op_type:
        case "Conv":
            unpadded = attribute(user, "auto_pad", "NOTSET") in ("NOTSET", "VALID")
            return unpadded and user.inputs[0] is value and _makes_up(user)
        case "MaxPool":
            after = sole_reader(user.outputs[0])
            return after is not None and is_calibration(after) and not _pooled(after)
        case "Add":
            is_convolution = chip is not None and runs_as_convolution(user, chip)
            return is_convolution or _other_operand(user, value) is not None
    return False


def _makes_up(convolution: ir.Node) -> bool:
    """Whether ``convolution`` makes up for the offset in its biases: all but padded ones of a channel per group."""
    groups = attribute(convolution, "group", 1)
    is_depthwise = groups > 1 and groups == shape_of(given(convolution, 0))[1]
    return not is_depthwise or not any(attribute(convolution, "pads", ()))


def _other_operand(user: ir.Node, value: ir.Value) -> ir.Node | None:
    """The convolution that ``value`` is added to by ``user``."""
    others = [operand for operand in user.inputs if operand is not value]
    return _lone_convolution(others[0]) if len(others) == 1 else None


def _is_non_negative(node: ir.Node) -> bool:
    if node.op_type != "Clip":
        return node.op_type == "Relu"
    low = constant_of(node.inputs[1]) if len(node.inputs) > 1 else attribute(node, "min")
    return low is not None and float(np.asarray(low).reshape(())) == 0.0
