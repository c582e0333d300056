"""Sums of maps that the BPU computes as convolutions (reference/arithmetic.md 2.6, bernoulli2)."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.chips import Chip
from engine.facts.chains import chains
from engine.facts.devices import asked_late, on_bpu, refused_late
from engine.graph.scales import OWN, scale_source
from engine.ir import (
    CALIBRATION_OP,
    HORIZON_DOMAIN,
    MARK_ON,
    QMAX,
    before_calibration,
    is_calibration,
    mark,
    shape_of,
)
from engine.ops.add import runs_as_convolution
from engine.ops.core.float_nodes import given, is_constant
from engine.ops.core.unit_conv import UNIT_CONV
from engine.optimize.affine import Affine
from engine.optimize.affine_apart import depthwise_convolution
from engine.place.calibration import calibrate_weight
from engine.place.options import INT8
from engine.rulebook.name import NamedPart, NameSite, Naming
from engine.terms import Device


def sums_as_convolutions(calibrated: ir.Model, march: Chip, names: Naming | None = None) -> None:
    """Let sums that no convolution takes read their first map through one that does: 1x1, depthwise, of weight 1.

    So have all 94 in the calibrated models of 12 networks on bernoulli2, and sums with a number per channel (3 of 3),
    which stay an operator of their own, also where they leave the BPU late (6 of 6 at the end and
    in front of a Softmax). A sum that reads such a convolution already stays as it is.

    Args:
        calibrated: model with devices and thresholds; changed in place.
        march: the BPU.
        names: gives the names; those of the original if there is none.
    """
    names = names or Naming(march.family)
    per_channel = _sums_per_channel(calibrated, march)
    for chain in chains(calibrated, march):
        if chain[0].op_type == "Add" and runs_as_convolution(chain[0], march):
            _read_through_convolution(calibrated.graph, chain[0], names)
    for node in per_channel:
        convolution = _read_through_convolution(calibrated.graph, node, names)
        _calibrate_as_input(convolution, names)


def calibrate_convolved(placed: ir.Model, march: Chip, names: Naming | None = None) -> None:
    """Calibrate what :func:`sums_as_convolutions` will give sums with a number per channel, by its own values.

    Where what the convolution of weight 1 reads takes another tensor's threshold, or one that follows from the input of
    its function, its result has the threshold of the values alone (28 of 28 asked, behind Tanh, Sigmoid, HardSigmoid,
    Softplus, Clip and MaxPool, and what is moved). It is the second calibration of the same tensor here: the
    convolution comes between the two.

    Args:
        placed: model with calibrations without thresholds; changed in place.
        march: the BPU.
        names: gives the names; those of the original if there is none.
    """
    names = names or Naming(march.family)
    for node in _sums_per_channel(placed, march):
        index = _map_of(node)
        first = given(node, index).producer()
        if first is None or not is_calibration(first) or scale_source(first) == OWN:
            continue
        second = _calibrated_again(first, _name_of_convolution(node, names), names)
        placed.graph.insert_before(node, second)
        node.replace_input_with(index, second.outputs[0])


def _sums_per_channel(model: ir.Model, march: Chip) -> list[ir.Node]:
    """The sums with a number per channel that read their map through a convolution, in graph order of each device."""
    if not march.sums_as_convolutions:
        return []
    heads = [chain[0] for chain in chains(model, march)]
    late = [node for node in model.graph if refused_late(node) and not asked_late(node)]
    sums = [node for node in (*heads, *late) if node.op_type == "Add"]
    return [node for node in sums if _adds_number_per_channel(node)]


def _adds_number_per_channel(node: ir.Node) -> bool:
    """Whether ``node`` adds a constant of one number per channel to a map that no such convolution gives.

    Nor a movement that left the BPU late, which 11 of 11 sums with a number read as it is, nor what the CPU computes (a
    MatMul of several channels, 4 of 4).
    """
    index = _map_of(node)
    shape, constant = shape_of(given(node, index)), shape_of(given(node, 1 - index))
    source = before_calibration(given(node, index)).producer()
    is_new = source is None or (on_bpu(source) and not str(source.name).startswith(UNIT_CONV))
    per_channel = constant == (1, *shape[1:2], *(1 for _ in shape[2:]))
    return is_new and is_constant(given(node, 1 - index)) and per_channel and constant != shape


def _map_of(node: ir.Node) -> int:
    """Which operand of the sum a convolution gives: the first that is no constant (1 of 1 asked)."""
    return 1 if is_constant(given(node, 0)) else 0


def _name_of_convolution(node: ir.Node, names: Naming) -> str:
    """The name of the convolution in front of the sum ``node``, and of its result."""
    return names.of(NameSite(NamedPart.UNIT_CONVOLUTION, node=str(node.name)))


def _calibrate_as_input(convolution: ir.Node, names: Naming) -> None:
    """Let the result of ``convolution`` be calibrated as what it reads, for all that reads it, unless it is already."""
    source, result = given(convolution, 0).producer(), convolution.outputs[0]
    graph = convolution.graph
    if source is None or not is_calibration(source) or not isinstance(graph, ir.Graph):
        return
    if any(is_calibration(usage.node) for usage in result.uses()):
        return
    node = _calibrated_again(source, str(result.name), names)
    result.replace_all_uses_with(node.outputs[0])
    node.replace_input_with(0, result)
    graph.insert_after(convolution, node)


def _calibrated_again(first: ir.Node, tensor: str, names: Naming) -> ir.Node:
    """A calibration of what ``first`` gives, as that calibrates, with the names of one of ``tensor``; in no graph."""
    value = first.outputs[0]
    calibrated = ir.Value(
        name=names.of(NameSite(NamedPart.CALIBRATED, tensor=tensor)), type=value.type, shape=value.shape
    )
    return ir.node(
        CALIBRATION_OP,
        [value],
        {name: attribute.value for name, attribute in first.attributes.items()},
        domain=HORIZON_DOMAIN,
        outputs=[calibrated],
        name=names.of(NameSite(NamedPart.CALIBRATION, tensor=tensor)),
    )


def _read_through_convolution(graph: ir.Graph, node: ir.Node, names: Naming) -> ir.Node:
    """The new convolution of weight 1 through which ``node``, or the second calibration before it, reads its map."""
    index, name, added = _map_of(node), _name_of_convolution(node, names), str(node.name)
    value = given(node, index)
    again = value.producer()
    if again is not None and is_calibration(again) and is_calibration(given(again, 0).producer()):
        node, index, value = again, 0, given(again, 0)
    channels = shape_of(value)[1]
    same = Affine(np.ones(channels), np.zeros(channels))
    convolution = depthwise_convolution(graph, value, same, added, name, name)
    mark(convolution, MARK_ON, Device.BPU)
    graph.insert_before(node, convolution)
    node.replace_input_with(index, convolution.outputs[0])
    calibrate_weight(convolution, 1, 0, names)
    calibration = given(convolution, 1).producer()
    if calibration is not None:
        scale = float(np.float32(1 / QMAX[INT8]))
        calibration.attributes["thresholds"] = ir.AttrFloat32s("thresholds", [1.0] * channels)
        calibration.attributes["scales"] = ir.AttrFloat32s("scales", [scale] * channels)
    return convolution
