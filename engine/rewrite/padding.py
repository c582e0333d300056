"""Reflected and repeated borders as joined slices."""

from __future__ import annotations

import onnx_ir as ir

from engine.ir import shape_of
from engine.optimize.base import padding_of
from engine.rewrite.base import Chain, Rewrite, float_source

MOST_BORDER = 8
"""Widest border: each row of it is a Slice of its own."""


class ReflectionAsSlices(Rewrite):
    """``Pad`` in mode ``reflect`` as ``Concat`` of the map and slices of one row or column each, in reverse order."""

    name = "reflect"
    says = "Reflected borders are joined out of single rows and columns of the map."
    op_types = frozenset({"Pad"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        source = float_source(node)
        if source is None:
            return False
        padding = padding_of(node, len(shape_of(source)))
        if padding is None or padding.mode != "reflect":
            return False
        sides = (*padding.before, *padding.after)
        if not 0 <= min(sides) <= max(sides) <= MOST_BORDER:
            self.remarks.append(f"{node.name} (Pad): a border of more than {MOST_BORDER}; it stays on the CPU")
            return False
        value = source
        for axis, (before, after) in enumerate(zip(padding.before, padding.after, strict=True)):
            size = shape_of(value)[axis]
            rows = [*range(before, 0, -1), None, *range(size - 2, size - 2 - after, -1)]
            if len(rows) > 1:
                pieces = [value if row is None else chain.slice(value, axis, row, row + 1) for row in rows]
                value = chain.concat(pieces, axis)
        return bool(chain.nodes)
