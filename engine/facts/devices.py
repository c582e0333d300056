"""The device of a node, as its marks say it."""

from __future__ import annotations

import onnx_ir as ir

from engine.ir import MARK_FLOATS, MARK_LATE, MARK_ON
from engine.ops.core.reasons import Code, reason_of
from engine.terms import Device


def on_bpu(node: ir.Node) -> bool:
    """Whether ``node`` is marked to run on the BPU."""
    return node.metadata_props.get(MARK_ON) == Device.BPU


def ends_on_bpu(node: ir.Node) -> bool:
    """Whether ``node`` is on the BPU to the end: what moves floats may leave it when these are quantised."""
    return on_bpu(node) and MARK_FLOATS not in node.metadata_props


def refused_late(node: ir.Node) -> bool:
    """Whether ``node`` runs on the CPU though its inputs are quantised for the BPU."""
    return MARK_LATE in node.metadata_props and not on_bpu(node)


def is_quantised(node: ir.Node) -> bool:
    """Whether the inputs of ``node`` are quantised: it runs on the BPU, or has left it late."""
    return on_bpu(node) or refused_late(node)


def is_asked_for(node: ir.Node) -> bool:
    """Whether the configuration sends ``node`` to the CPU."""
    reason = reason_of(node)
    return reason is not None and reason.code is Code.ASKED_FOR


def asked_late(node: ir.Node) -> bool:
    """Whether ``node`` leaves the BPU late because the configuration sends it to the CPU."""
    return MARK_LATE in node.metadata_props and is_asked_for(node)


def joins_on_request(node: ir.Node) -> bool:
    """Whether ``node`` is a Concat that the configuration sends to the CPU, and which reads quantised values there."""
    return node.op_type == "Concat" and asked_late(node) and refused_late(node)
