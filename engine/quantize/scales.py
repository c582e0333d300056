"""Which calibration gives a tensor its scale where it has none of its own: that of what it is moved from, or to."""

from __future__ import annotations

import onnx_ir as ir

from engine.errors import ModelError
from engine.facts.devices import on_bpu, refused_late
from engine.facts.moves import Nodes, moved_to
from engine.ir import (
    Calibration,
    before_calibration,
    calibration_nodes,
    calibration_of,
    is_calibration,
    read_calibration,
)
from engine.ops.core.base import Tie
from engine.ops.core.float_nodes import given
from engine.ops.registry import rule_for


def own_calibration(value: ir.Value) -> Calibration | None:
    """Calibration of ``value``, by its own node or the one that reads it."""
    own = calibration_of(value)
    if own is not None:
        return own
    readers = [usage.node for usage in value.uses() if is_calibration(usage.node)]
    return read_calibration(readers[0]) if readers else None


def calibration_before(value: ir.Value) -> Calibration | None:
    """Calibration of ``value``, or of what the BPU moved to it."""
    while (own := own_calibration(value)) is None and (producer := value.producer()) is not None:
        rule = rule_for(producer) if on_bpu(producer) else None
        if rule is None or rule.tie(producer) is not Tie.OUTPUT_TAKES_INPUT:
            return None
        value = given(producer, 0)
    return own


def calibration_behind(model: ir.Model, tensor: ir.Value, reader: ir.Node | None = None) -> tuple[str, Calibration]:
    """Name and calibration of the first calibrated tensor of ``model``, in graph order, that ``tensor`` is moved to.

    By the BPU, or, if that moves it to none, by nodes that went to the CPU late too (a Pad that reflects).

    Args:
        model: with calibrations.
        tensor: what is moved.
        reader: the node whose results are followed alone, where they are moved to what is calibrated.

    Raises:
        ModelError: there is none.
    """
    results = reader.outputs if reader is not None and _keeps_scale(reader) else ()
    found = (
        {node for result in results for node in _moved_to(result, on_bpu)}
        or _moved_to(tensor, on_bpu)
        or _moved_to(tensor, lambda node: on_bpu(node) or refused_late(node))
    )
    first = next((node for node in calibration_nodes(model) if node in found), None)
    if first is None:
        raise ModelError(f"tensor {tensor.name} is read by a BPU node and is not calibrated")
    return str(before_calibration(first.outputs[0]).name), read_calibration(first)


def _moved_to(tensor: ir.Value, counts: Nodes) -> set[ir.Node]:
    """The calibrations of what nodes for which ``counts`` holds move ``tensor`` to."""
    moved = moved_to(tensor, lambda node: counts(node) and _keeps_scale(node), past_calibrations=False)
    return {usage.node for each in moved for usage in each.uses() if is_calibration(usage.node)}


def _keeps_scale(node: ir.Node) -> bool:
    rule = rule_for(node)
    return rule is not None and rule.tie(node) in (Tie.OUTPUT_TAKES_INPUT, Tie.ONE_FOR_BOTH)
