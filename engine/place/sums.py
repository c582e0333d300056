"""Sums of maps that the BPU computes as convolutions (reference/arithmetic.md 2.6, bernoulli2)."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.chips import Chip
from engine.facts.chains import chains
from engine.ir import MARK_ON, QMAX, mark, shape_of
from engine.ops.add import runs_as_convolution
from engine.ops.core.float_nodes import given, is_constant
from engine.optimize.affine import Affine, depthwise_convolution
from engine.place.calibration import calibrate_weight
from engine.place.options import INT8
from engine.rulebook.name import NamedPart, NameSite, Naming
from engine.terms import Device


def sums_as_convolutions(calibrated: ir.Model, march: Chip, names: Naming | None = None) -> None:
    """Let sums that no convolution takes read their first map through one that does: 1x1, depthwise, of weight 1.

    So have all 94 in the calibrated models of 12 networks on bernoulli2. A sum that reads such a convolution already
    stays as it is.

    Args:
        calibrated: model with devices and thresholds; changed in place.
        march: the BPU.
        names: gives the names; those of the original if there is none.
    """
    names = names or Naming(march.family)
    for chain in chains(calibrated, march):
        if chain[0].op_type == "Add" and runs_as_convolution(chain[0], march):
            _read_through_convolution(calibrated.graph, chain[0], names)


def _read_through_convolution(graph: ir.Graph, node: ir.Node, names: Naming) -> None:
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
