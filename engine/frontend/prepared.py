"""Models that bring thresholds: calibrated before (``HzCalibration``), or from quantisation-aware training.

The nodes are taken out, so that all stages see a float model; what they say travels in the model's metadata, and
``calibration_type: load`` uses it. A model that was calibrated before also brings its ``HzPreprocess`` nodes: the
conversion puts its own in their place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import onnx_ir as ir

from engine.errors import ModelError
from engine.ir import HORIZON_DOMAIN, calibration_nodes, read_calibration
from engine.ops.foreign.composite import PREPROCESS

INT8 = "int8"

MARK_GIVEN = "hz.given_thresholds"
"""Metadata of a model: JSON, thresholds by name of the float tensor."""
MARK_PREPROCESSED = "hz.preprocessed"
"""Metadata of a model: JSON, names of the inputs whose ``HzPreprocess`` was taken out."""
MARK_GIVEN_TYPES = "hz.given_types"
"""Metadata of a model: JSON, types by name of the float tensor, but for int8 ones."""


def take_out_calibration(model: ir.Model) -> None:
    """Remove the ``HzCalibration`` nodes of ``model``, in place, and remember thresholds and types of those ``ON``.

    Of several behind one tensor the last counts. Outputs of the model keep their names.

    Raises:
        ModelError: one has no input, no output or an attribute of a wrong type.
    """
    given: dict[str, list[float]] = {}
    types: dict[str, str] = {}
    for node in tuple(calibration_nodes(model)):
        source = node.inputs[0] if node.inputs else None
        if source is None or not node.outputs:
            raise ModelError(f"node {node.name!r}: HzCalibration has no input or no output")
        result = node.outputs[0]
        try:
            calibration = read_calibration(node)
        except (TypeError, ValueError) as error:
            raise ModelError(f"node {node.name!r}: HzCalibration has an attribute of a wrong type: {error}") from error
        is_output = result.is_graph_output() and source.producer() is not None and not source.is_graph_output()
        name = str(result.name if is_output else source.name)
        if calibration.switch == "ON" and calibration.thresholds.size:
            given[name] = calibration.thresholds.ravel().tolist()
            types[name] = calibration.qtype
        result.replace_all_uses_with(source, replace_graph_outputs=True)
        model.graph.remove(node, safe=True)
        source.name = name
    remember(model, given, {name: qtype for name, qtype in types.items() if qtype != INT8})
    if not any(node.domain == HORIZON_DOMAIN for node in model.graph):
        model.opset_imports.pop(HORIZON_DOMAIN, None)


def remember(model: ir.Model, given: Mapping[str, list[float]], types: Mapping[str, str]) -> None:
    """Add thresholds and types by name of the float tensor to what ``model`` brings."""
    for key, old, found in (
        (MARK_GIVEN, given_thresholds(model), given),
        (MARK_GIVEN_TYPES, given_types(model), types),
    ):
        if found:
            model.metadata_props[key] = json.dumps({**old, **found})


def take_out_preprocessing(model: ir.Model) -> None:
    """Remove the ``HzPreprocess`` nodes of ``model``, in place, and remember of which inputs.

    Raises:
        ModelError: one does not read an input of the model.
    """
    names = []
    for node in [node for node in model.graph if node.op_type == PREPROCESS and node.domain == HORIZON_DOMAIN]:
        source, *constants = node.inputs or (None,)
        if source is None or not source.is_graph_input() or not node.outputs:
            raise ModelError(f"node {node.name!r}: HzPreprocess does not read an input of the model")
        node.outputs[0].replace_all_uses_with(source, replace_graph_outputs=True)
        model.graph.remove(node, safe=True)
        for constant in constants:
            if constant is not None and not constant.uses():
                model.graph.initializers.pop(str(constant.name), None)
        names.append(str(source.name))
    if names:
        model.metadata_props[MARK_PREPROCESSED] = json.dumps(names)


def preprocessed_inputs(model: ir.Model) -> tuple[str, ...]:
    """Inputs whose ``HzPreprocess`` was taken out."""
    return tuple(json.loads(model.metadata_props.get(MARK_PREPROCESSED, "[]")))


def given_thresholds(model: ir.Model) -> Mapping[str, list[float]]:
    """Thresholds by name of the float tensor that the file of ``model`` brought; empty where it brought none."""
    found: Mapping[str, list[float]] = json.loads(model.metadata_props.get(MARK_GIVEN, "{}"))
    return found


def given_types(model: ir.Model) -> Mapping[str, str]:
    """Types by name of the float tensor that the file of ``model`` brought, but for int8 ones."""
    found: Mapping[str, str] = json.loads(model.metadata_props.get(MARK_GIVEN_TYPES, "{}"))
    return found
