"""Thresholds that are not a tensor's own: taken over from another one, or fixed by an operator."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from engine.ir import MARK_FIXED, MARK_TIE, attribute, before_calibration, is_calibration, mark
from engine.ops.core.base import Tie
from engine.ops.registry import rule_for
from engine.place.chains import on_bpu
from engine.place.options import INT16


def mark_thresholds(model: ir.Model) -> None:
    """Marks ``hz.tie`` and ``hz.fixed`` on the calibration nodes of tensors whose threshold is not their own."""
    ties: dict[str, str] = {}
    calibrations = {_tensor_name(node.inputs[0]): node for node in model.graph if is_calibration(node)}
    for node in model.graph:
        rule = rule_for(node)
        if is_calibration(node) or not on_bpu(node) or rule is None:
            continue
        names = [_tensor_name(node.inputs[index]) for index in rule.activations(node)]
        output = str(node.outputs[0].name)
        match rule.tie(node):
            case Tie.OUTPUT_TAKES_INPUT:
                _tie(ties, output, names[0])
            case Tie.INPUTS_TAKE_OUTPUT if rule.int16_ties or not _is_int16(calibrations.get(output)):
                for name in names:
                    _tie(ties, name, output)
    for node in model.graph:
        _fix_thresholds(node, calibrations, ties)
    for name in ties:
        root = _root(ties, name)
        if name in calibrations and root in calibrations:
            mark(calibrations[name], MARK_TIE, root)
            mark(calibrations[name], MARK_FIXED, calibrations[root].metadata_props.get(MARK_FIXED))


def _is_int16(calibration: ir.Node | None) -> bool:
    return calibration is not None and attribute(calibration, "qtype") == INT16


def _tensor_name(value: ir.Value | None) -> str:
    return "" if value is None else str(before_calibration(value).name)


def _root(ties: Mapping[str, str], name: str) -> str:
    while name in ties:
        name = ties[name]
    return name


def _tie(ties: dict[str, str], name: str, to: str) -> None:
    """``name`` takes the threshold of ``to``, unless it has been tied already or ``to`` follows ``name``."""
    if name not in ties and _root(ties, to) != name:
        ties[name] = to


def _fix_thresholds(node: ir.Node, calibrations: Mapping[str, ir.Node], ties: Mapping[str, str]) -> None:
    """Thresholds that an operator fixes, on tensors that nothing else has a say in."""
    rule = rule_for(node)
    if is_calibration(node) or not on_bpu(node) or rule is None:
        return
    source, result = _tensor_name(node.inputs[0]), str(node.outputs[0].name)
    for name, alone in ((source, True), (result, False)):
        calibration = calibrations.get(name)
        if calibration is None or name in ties or (alone and len(list(calibration.outputs[0].uses())) > 1):
            continue
        thresholds = rule.fixed_thresholds(node, attribute(calibration, "qtype"))
        fixed = thresholds[0 if name == source else 1]
        decided = node.metadata_props.get(MARK_FIXED) if name == result else None
        if fixed is not None or decided is not None:
            mark(calibration, MARK_FIXED, decided or repr(fixed))
