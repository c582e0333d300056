"""Thresholds that a model's file brings, put where they belong: ``calibration_type: load``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from engine.calibrate.methods.asymmetric import unsigned_tensors
from engine.calibrate.methods.channels import tensors_per_channel
from engine.calibrate.methods.methods import FIXED_THRESHOLD
from engine.calibrate.methods.thresholds import names_before_calibration, set_thresholds, threshold_sources
from engine.facts.devices import on_bpu
from engine.facts.moves import keeps_scale, moved_from, moved_to
from engine.frontend import preprocess
from engine.frontend.prepared import given_thresholds, given_types
from engine.graph.scales import change_scale_source, scale_source
from engine.ir import (
    UNSIGNED,
    before_calibration,
    calibration_nodes,
    constant_of,
    is_calibration,
    read_calibration,
    shape_of,
)
from engine.ops.core.gates import behind_gates

logger = logging.getLogger(__name__)

_MOST_NAMES = 5
"""How many names a warning lists."""


def with_given(placed: ir.Model) -> ir.Model:
    """A copy of ``placed`` with the thresholds that the model's file brought, where they fit.

    Tensors that share a threshold take the one that any of them has, but for the result of a Pad, which keeps its own
    and gives it to what it is moved to (one network: a sum's operand, requantised behind its Pad). Several thresholds
    for a tensor that takes but one become their maximum; one for a weight is that of all its channels. A constant
    operand takes its own instead of its largest magnitude, as the original does (one network: a Mul and an Add). Others
    stay without.
    """
    model = placed.clone()
    given, types, names = given_thresholds(model), given_types(model), _names_in_file(model)
    thresholds = _thresholds(model, given, names)
    sources, unsigned = threshold_sources(model), unsigned_tensors(model)
    apart = tensors_per_channel(model, given)
    without, gated = [], []
    for node in calibration_nodes(model):
        values, tensor = thresholds.get(str(node.name), ()), before_calibration(node.outputs[0])
        weight = constant_of(node.inputs[0])
        source = scale_source(node)
        if source.gated is not None:
            gated.append(node)
            continue
        if source.fixed is not None:
            if weight is not None and values:
                change_scale_source(node, fixed=None)
                set_thresholds(node, np.asarray([max(values)], np.float32))
            continue
        if not values:
            without += [] if weight is not None else [str(tensor.name)]
            continue
        if weight is not None:
            if read_calibration(node).axis == 0 and len(values) in (1, weight.shape[0]):
                set_thresholds(node, np.full(weight.shape[0], values, np.float32))
            continue
        if types.get(names.get(str(node.name), "")) == UNSIGNED and tensor.name in unsigned:
            node.attributes["qtype"] = ir.AttrString("qtype", UNSIGNED)
        values_of = sources.get(str(node.name), tensor.name)
        if len(values) > 1 and values_of in apart and source.of is None and len(values) == shape_of(tensor)[1]:
            node.attributes["axis"] = ir.AttrInt64("axis", 1)
            set_thresholds(node, np.asarray(values, np.float32))
        else:
            set_thresholds(node, np.asarray([max(values)], np.float32))
    for node in gated:
        set_thresholds(node, np.asarray([_gated(node, model)], np.float32))
    _warn("no BPU node uses the model's thresholds of %s", sorted(given.keys() - set(names.values())))
    _warn("the model has no thresholds for %s, so 1.0 is used", without)
    return model


def _thresholds(
    model: ir.Model, given: Mapping[str, Sequence[float]], names: Mapping[str, str]
) -> dict[str, Sequence[float]]:
    """Given thresholds by name of the ``HzCalibration`` that takes them: its own, or those that it shares."""
    sources = threshold_sources(model)
    shared = {sources[node]: given[name] for node, name in names.items() if node in sources}
    shared |= {source: given[source] for source in shared.keys() & given.keys()}
    own = {node: given[name] for node, name in names.items() if node not in sources}
    found = own | {node: shared[source] for node, source in sources.items() if source in shared}
    return found | _behind_pads(model, given, names)


def _behind_pads(
    model: ir.Model, given: Mapping[str, Sequence[float]], names: Mapping[str, str]
) -> dict[str, Sequence[float]]:
    """What the file says of results of Pads, for these and for what they are moved to."""
    nodes = {before_calibration(node.outputs[0]): str(node.name) for node in calibration_nodes(model)}
    found = {}
    for value, node in nodes.items():
        head = moved_from(value, lambda each: is_calibration(each) or _moves_on_bpu(each))
        pad, name = head.producer(), names.get(nodes.get(head, ""))
        if pad is not None and pad.op_type == "Pad" and name is not None:
            found[node] = given[name]
    return found


def _gated(node: ir.Node, model: ir.Model) -> float:
    """The threshold of what gates give, from that which the tensor in front of them has by now."""
    gated = scale_source(node).gated
    if gated is None:
        raise AssertionError(f"{node.name} follows from no gate")
    nodes = calibration_nodes(model)
    found = {str(before_calibration(each.outputs[0]).name): each for each in nodes}
    values = read_calibration(found[gated.of]).thresholds if gated.of in found else np.empty(0)
    return behind_gates(gated.gates, float(values.max()) if values.size else FIXED_THRESHOLD)


def _names_in_file(model: ir.Model) -> dict[str, str]:
    """The tensors that the file has thresholds of, by the name of the ``HzCalibration`` that stands for them now."""
    given, outputs = given_thresholds(model), names_before_calibration(model)
    found = {}
    for node in calibration_nodes(model):
        tensor = str(before_calibration(node.outputs[0]).name)
        name = outputs.get(tensor, tensor)
        # What the file says of an image input holds behind the preprocessing that took its place; what it says of a
        # tensor that the BPU moved there, of what was moved (pairs behind the Reshape of a dense layer: 2 of 2 asked).
        moved = [str(value.name) for value in moved_to(before_calibration(node.outputs[0]), _moves_on_bpu)]
        aliases = (alias for alias in (name, name.removeprefix(preprocess.PREFIX), *moved) if alias in given)
        if (alias := next(aliases, None)) is not None:
            found[str(node.name)] = alias
    return found


def _moves_on_bpu(node: ir.Node) -> bool:
    return on_bpu(node) and keeps_scale(node)


def _warn(message: str, names: Sequence[str]) -> None:
    """``message`` with the ``names`` in it, if there are any."""
    if names:
        rest = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        logger.warning("calibration_type load: %s.", message % (", ".join(names[:_MOST_NAMES]) + rest))
