"""Which rows of its inputs an operator reads for a band of rows of its output: what tiling needs of an operator.

Maps are NHWC. An operator declares a :class:`RowAccess`: :data:`WHOLE_MAP`, :data:`SAME_ROWS`, :data:`ROW_WINDOWS`, or
one of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from engine.ir import attribute, shape_of

ROW_AXIS, CHANNEL_AXIS = 1, 3


@dataclass(frozen=True)
class Rows:
    """Rows ``start`` to ``stop`` (exclusive) of an NHWC map."""

    start: int
    stop: int

    @property
    def count(self) -> int:
        """How many."""
        return self.stop - self.start

    def hull(self, other: Rows | None) -> Rows:
        """The smallest band that holds both."""
        return self if other is None else Rows(min(self.start, other.start), max(self.stop, other.stop))


@dataclass(frozen=True)
class Window:
    """Rows of the first input that a band of output rows needs, and the padding rows above and below it."""

    rows: Rows
    above: int = 0
    below: int = 0


class RowAccess(ABC):
    """How an operator reads rows; stateless."""

    @abstractmethod
    def splits(self, node: ir.Node) -> bool:
        """Whether ``node`` can be computed band by band.

        Its inputs that are no constants, and its only output, are NHWC maps; the output has more than one row.
        """

    def read(self, node: ir.Node, position: int, rows: Rows) -> Rows:
        """Rows of input ``position`` that ``node`` reads for ``rows`` of its output; a map of one row is read whole."""
        value = node.inputs[position]
        return Rows(0, 1) if value is not None and shape_of(value)[ROW_AXIS] == 1 else rows

    def attributes(self, node: ir.Node, rows: Rows) -> Mapping[str, ir.Attr]:
        """Attributes of the node that computes ``rows`` of the output of ``node`` from the rows that it reads."""
        return node.attributes


class WholeMap(RowAccess):
    """The operator runs whole: it ends a run of tiles."""

    def splits(self, node: ir.Node) -> bool:
        return False


class SameRows(RowAccess):
    """A row from the same row of every input, or from its only one."""

    def splits(self, node: ir.Node) -> bool:
        if attribute(node, "axis", CHANNEL_AXIS) != CHANNEL_AXIS:
            return False
        height = shape_of(node.outputs[0])[ROW_AXIS]
        maps = [value for value in node.inputs if value is not None and value.const_value is None]
        constants = [value for value in node.inputs if value is not None and value.const_value is not None]
        rows_of_constants = [shape_of(value)[-3] for value in constants if len(shape_of(value)) >= 3]
        return all(shape_of(value)[ROW_AXIS] in (1, height) for value in maps) and set(rows_of_constants) <= {1}


class RowWindows(RowAccess):
    """A row from a window of rows of the first input, and from the same row of the others.

    The window follows from ``kernel_shape``, ``strides``, ``pads`` and ``dilations``.
    """

    def splits(self, node: ir.Node) -> bool:
        height = shape_of(node.outputs[0])[ROW_AXIS]
        others = [value for value in node.inputs[1:] if value is not None and value.const_value is None]
        aligned = all(shape_of(value)[ROW_AXIS] == height for value in others)
        return aligned and not attribute(node, "ceil_mode", 0) and _touches_every_window(node)

    def read(self, node: ir.Node, position: int, rows: Rows) -> Rows:
        return window_of(node, rows).rows if position == 0 else super().read(node, position, rows)

    def attributes(self, node: ir.Node, rows: Rows) -> Mapping[str, ir.Attr]:
        """The padding rows are those of the band: only the first and the last one have any."""
        window, pads = window_of(node, rows), attribute(node, "pads", (0, 0, 0, 0))
        padded = ir.AttrInt64s("pads", (window.above, pads[1], window.below, pads[3]))
        return {**node.attributes, "pads": padded}


WHOLE_MAP, SAME_ROWS, ROW_WINDOWS = WholeMap(), SameRows(), RowWindows()


def window_of(node: ir.Node, rows: Rows) -> Window:
    """What ``rows`` of the output of ``node``, an operator of :class:`RowWindows`, need of its first input."""
    first = node.inputs[0]
    if first is None:
        return Window(rows)
    height = shape_of(first)[ROW_AXIS]
    stride, above = attribute(node, "strides", (1, 1))[0], attribute(node, "pads", (0, 0, 0, 0))[0]
    extent = (attribute(node, "kernel_shape")[0] - 1) * attribute(node, "dilations", (1, 1))[0] + 1
    start = rows.start * stride - above
    stop = (rows.stop - 1) * stride - above + extent
    inside = Rows(min(max(start, 0), height - 1), max(min(stop, height), 1))
    return Window(inside, inside.start - start, stop - inside.stop)


def _touches_every_window(node: ir.Node) -> bool:
    """Whether every window has a row of the input: one that lies in the padding has no band to be computed from."""
    height = shape_of(node.outputs[0])[ROW_AXIS]
    windows = (window_of(node, Rows(row, row + 1)) for row in (0, height - 1))
    return all(window.above >= 0 and window.below >= 0 for window in windows)
