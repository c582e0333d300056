"""Sums of maps that the BPU computes as convolutions (reference/arithmetic.md 2.6, bernoulli2)."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.chips import Chip
from engine.facts.chains import chains
from engine.facts.devices import asked_late, on_bpu, refused_late
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
    for chain in chains(calibrated, march):
        if chain[0].op_type != "Add" or not march.sums_as_convolutions:
            continue
        if runs_as_convolution(chain[0], march):
            _read_through_convolution(calibrated.graph, chain[0], names)
        elif _adds_number_per_channel(chain[0]):
            convolution = _read_through_convolution(calibrated.graph, chain[0], names)
            _calibrate_as_input(convolution, names)
    for node in list(calibrated.graph) if march.sums_as_convolutions else ():
        if node.op_type == "Add" and refused_late(node) and not asked_late(node) and _adds_number_per_channel(node):
            convolution = _read_through_convolution(calibrated.graph, node, names)
            _calibrate_as_input(convolution, names)


def _adds_number_per_channel(node: ir.Node) -> bool:
    """Whether ``node`` adds a constant of one number per channel to a map that no such convolution gives.

    Nor a movement that left the BPU late, which 11 of 11 sums with a number read as it is, nor what the CPU computes (a
    MatMul of several channels, 4 of 4).
    """
    index = 1 if is_constant(given(node, 0)) else 0
    shape, constant = shape_of(given(node, index)), shape_of(given(node, 1 - index))
    source = before_calibration(given(node, index)).producer()
    is_new = source is None or (on_bpu(source) and not str(source.name).startswith(UNIT_CONV))
    per_channel = constant == (1, *shape[1:2], *(1 for _ in shape[2:]))
    return is_new and is_constant(given(node, 1 - index)) and per_channel and constant != shape


def _calibrate_as_input(convolution: ir.Node, names: Naming) -> None:
    """Let the result of ``convolution`` be calibrated as what it reads, for all that reads it."""
    source, result = given(convolution, 0).producer(), convolution.outputs[0]
    graph = convolution.graph
    if source is None or not is_calibration(source) or not isinstance(graph, ir.Graph):
        return
    tensor = str(result.name)
    calibrated = ir.Value(
        name=names.of(NameSite(NamedPart.CALIBRATED, tensor=tensor)), type=result.type, shape=result.shape
    )
    node = ir.node(
        CALIBRATION_OP,
        [result],
        {name: attribute.value for name, attribute in source.attributes.items()},
        domain=HORIZON_DOMAIN,
        outputs=[calibrated],
        name=names.of(NameSite(NamedPart.CALIBRATION, tensor=tensor)),
    )
    result.replace_all_uses_with(calibrated)
    node.replace_input_with(0, result)
    graph.insert_after(convolution, node)


def _read_through_convolution(graph: ir.Graph, node: ir.Node, names: Naming) -> ir.Node:
    index = 1 if is_constant(given(node, 0)) else 0  # 1 of 1 asked
    value, name = given(node, index), names.of(NameSite(NamedPart.UNIT_CONVOLUTION, node=str(node.name)))
    channels = shape_of(value)[1]
    same = Affine(np.ones(channels), np.zeros(channels))
    convolution = depthwise_convolution(graph, value, same, str(node.name), name, name)
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
