"""Factors of channels in the weights that read them, as the original's calibrated models state them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, calibration_nodes, constant_of, read_calibration, set_constant
from engine.ops.core.derive import fold_input_scales

INT8_STEPS = 127


def fold_channel_scales(calibrated: ir.Model) -> None:
    """Let weights take over what distinguishes the channels of their input, as in the original's calibrated models.

    There the calibration of such a tensor says the factor of each channel (``channel_scales``) and the scale that all
    have then (``mobilenet_v1_c``, one tensor, all its integers).

    Args:
        calibrated: with thresholds; changed in place.
    """
    for node in tuple(calibration_nodes(calibrated)):
        _fold(calibrated, node)


def _fold(model: ir.Model, calibration: ir.Node) -> None:
    if calibration.inputs[0] is None or constant_of(calibration.inputs[0]) is not None:
        return
    scales = read_calibration(calibration).scales
    readers = [usage.node for usage in calibration.outputs[0].uses() if usage.idx == 0 and usage.node.op_type == "Conv"]
    if scales.size == 1 or not readers:
        return
    largest = scales.max()
    calibration.attributes["channel_scales"] = ir.AttrFloat32s("channel_scales", (largest / scales).tolist())
    calibration.attributes["dequantize_scale"] = ir.AttrFloat32("dequantize_scale", float(largest))
    for reader in readers:
        before = None if reader.inputs[1] is None else reader.inputs[1].producer()
        weight = None if before is None else constant_of(before.inputs[0])
        if before is None or weight is None:
            continue
        group, thresholds = attribute(reader, "group", 1), read_calibration(before).thresholds
        folded, thresholds, _ = fold_input_scales(weight, thresholds, scales, group)
        set_constant(model.graph, before, 0, folded)
        before.attributes["thresholds"] = ir.AttrFloat32s("thresholds", thresholds.tolist())
        before.attributes["scales"] = ir.AttrFloat32s("scales", (thresholds / np.float32(INT8_STEPS)).tolist())
