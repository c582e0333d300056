"""Models that bring ``HzCalibration`` nodes: from quantisation-aware training, or calibrated before.

The nodes are taken out, so that all stages see a float model; what they say travels in the model's metadata, and
``calibration_type: load`` uses it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import onnx_ir as ir

from engine.errors import ModelError
from engine.ir import HORIZON_DOMAIN, calibration_nodes, read_calibration

MARK_GIVEN = "hz.given_thresholds"
"""Metadata of a model: JSON, thresholds by name of the float tensor."""


def take_out_calibration(model: ir.Model) -> None:
    """Remove the ``HzCalibration`` nodes of ``model``, in place, and remember the thresholds of those that are ``ON``.

    Raises:
        ModelError: one has no input, no output or an attribute of a wrong type.
    """
    given: dict[str, list[float]] = {}
    for node in tuple(calibration_nodes(model)):
        source = node.inputs[0] if node.inputs else None
        if source is None or not node.outputs:
            raise ModelError(f"node {node.name!r}: HzCalibration has no input or no output")
        result = node.outputs[0]
        try:
            calibration = read_calibration(node)
        except (TypeError, ValueError) as error:
            raise ModelError(f"node {node.name!r}: HzCalibration has an attribute of a wrong type: {error}") from error
        if calibration.switch == "ON" and calibration.thresholds.size:
            given[str(source.name)] = calibration.thresholds.ravel().tolist()
        result.replace_all_uses_with(source, replace_graph_outputs=True)
        model.graph.remove(node, safe=True)
    if given:
        model.metadata_props[MARK_GIVEN] = json.dumps(given)
    if not any(node.domain == HORIZON_DOMAIN for node in model.graph):
        model.opset_imports.pop(HORIZON_DOMAIN, None)


def given_thresholds(model: ir.Model) -> Mapping[str, list[float]]:
    """Thresholds by name of the float tensor that the file of ``model`` brought; empty where it brought none."""
    found: Mapping[str, list[float]] = json.loads(model.metadata_props.get(MARK_GIVEN, "{}"))
    return found
