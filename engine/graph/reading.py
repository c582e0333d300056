"""Who reads a tensor."""

from __future__ import annotations

import onnx_ir as ir

from engine.ir import is_calibration


def float_readers(value: ir.Value) -> list[ir.Node]:
    """Nodes that read ``value``, seen through calibration nodes; one that reads it twice stands there twice."""
    found = []
    for usage in value.uses():
        if is_calibration(usage.node):
            found += float_readers(usage.node.outputs[0])
        else:
            found.append(usage.node)
    return found


def used_once(value: ir.Value) -> bool:
    """Whether ``value`` is one input of one node and nothing else."""
    return len(value.uses()) == 1 and not value.is_graph_output()


def sole_reader(value: ir.Value, *, once: bool = False) -> ir.Node | None:
    """The only node that reads ``value``; None where there are several, or ``value`` is an output of the graph.

    Args:
        value: any tensor; a calibration node counts as a reader.
        once: and only as one of its inputs.
    """
    found = {usage.node for usage in value.uses()}
    if len(found) != 1 or value.is_graph_output() or (once and not used_once(value)):
        return None
    return next(iter(found))
