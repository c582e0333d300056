"""Operator sets 9 and 10 in terms of 11, so that no later stage meets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np
import onnx_ir as ir

from engine.errors import UnsupportedError
from engine.frontend.onnx import name_nodes
from engine.ir import HORIZON_DOMAIN, MARK_OLD_RESIZE, attribute, mark, static_shape
from engine.optimize.base import Array, graph_of, is_standard
from engine.optimize.contract import Condition, GraphPass
from engine.terms import Compatibility

_OLDEST, _LEAST = 9, 11
_LOWEST = float(np.finfo(np.float32).min)


class ConvertOldOpsets(GraphPass):
    """Models of opsets 9 and 10 become models of opset 11, as ``onnx.version_converter`` does it.

    ``Upsample`` is ``Resize``; ``Clip``, ``Pad``, ``Slice`` and ``TopK`` take as inputs what were attributes. What is
    new has the names that the converter, which the original uses, gives: numbers from the number of tensors on. A
    ``Resize`` gets no coordinates, so that it takes its pixels half a pixel further than opset 10 says (asked of 12);
    with ``compatibility: clean`` it gets those of opset 10 where that changes a value.
    """

    needs = ()
    gives = (Condition("no node is an Upsample", lambda node: is_standard(node, "Upsample")),)

    def __init__(self, compatibility: Compatibility = Compatibility.ORIGINAL) -> None:
        super().__init__()
        self._exact = compatibility is Compatibility.CLEAN

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        opset = model.opset_imports.get("", _LEAST)
        if not _OLDEST <= opset < _LEAST:
            return ir.passes.PassResult(model, False)
        numbers = _numbers(model.graph)
        for steps in (_FROM_9, _FROM_10)[opset - _OLDEST :]:
            for node in tuple(model.graph):
                step = steps.get(node.op_type) if node.domain in ("", "ai.onnx") else None
                if step is not None:
                    step(_Conversion(node, numbers, self._exact))
        model.opset_imports[""] = _LEAST
        name_nodes(model)
        return ir.passes.PassResult(model, True)

    def ensures(self, model: ir.Model) -> None:
        """Check the opset too.

        Raises:
            PostconditionError: it is older than 11, or a condition does not hold.
        """
        super().ensures(model)
        opset = model.opset_imports.get("", 0)
        if opset < _LEAST:
            raise ir.passes.PostconditionError(f"ensures that the opset is {_LEAST} or later, but it is {opset}")


@dataclass(frozen=True)
class _Conversion:
    """A node that means something else in the next opset.

    Attributes:
        node: the node.
        numbers: names that are free.
        exact: whether it must compute what it did.
    """

    node: ir.Node
    numbers: Iterator[int]
    exact: bool

    def constant(self, array: Array) -> ir.Value:
        """A new constant in front of the node."""
        name = str(next(self.numbers))
        made = ir.node("Constant", [], {"value": ir.AttrTensor("value", ir.tensor(array))}, name=f"Constant_{name}")
        made.outputs[0].name = name
        made.outputs[0].dtype, made.outputs[0].shape = ir.DataType.from_numpy(array.dtype), ir.Shape(array.shape)
        graph_of(self.node).insert_before(self.node, made)
        return made.outputs[0]

    def to_inputs(self, *values: Array) -> None:
        """Let ``values`` be the inputs behind the first."""
        self.node.resize_inputs(1 + len(values))
        for index, array in enumerate(values, start=1):
            self.node.replace_input_with(index, self.constant(array))


def _numbers(graph: ir.Graph) -> Iterator[int]:
    """What the converter calls new tensors: one more than the number of those of the source, counted from 1.

    Those of preprocessing, which is put in front afterwards, do not count.
    """
    own = [node for node in graph if node.domain != HORIZON_DOMAIN]
    read = {value for node in own for value in node.inputs if value is not None}
    constants = [value for value in graph.initializers.values() if value in read or not value.uses()]
    given = {*graph.inputs, *constants}
    taken = {str(value.name) for node in graph for value in (*node.inputs, *node.outputs) if value is not None}
    first = len(given) + sum(len(node.outputs) for node in own) + 2
    return (number for number in count(first) if str(number) not in taken)


def _upsample(found: _Conversion) -> None:
    """A ``Resize``, named like one without a name; so is its result, unless it is one of the network."""
    found.node.op_type, found.node.name = "Resize", ""
    result = found.node.outputs[0]
    if not result.is_graph_output():
        result.name = str(next(found.numbers))


def _slice(found: _Conversion) -> None:
    starts = attribute(found.node, "starts", ())
    axes = attribute(found.node, "axes", tuple(range(len(starts))))
    ends = attribute(found.node, "ends", ())
    found.to_inputs(*(np.asarray(numbers, np.int64) for numbers in (starts, ends, axes)))
    _forget(found.node, "starts", "ends", "axes")


def _top_k(found: _Conversion) -> None:
    found.to_inputs(np.asarray([attribute(found.node, "k", 0)], np.int64))
    _forget(found.node, "k")


def _clip(found: _Conversion) -> None:
    low, high = attribute(found.node, "min"), attribute(found.node, "max")
    limits = [_LOWEST if low is None and high is not None else low, high]
    found.to_inputs(*(np.asarray(limit, np.float32) for limit in limits if limit is not None))
    _forget(found.node, "min", "max")


def _pad(found: _Conversion) -> None:
    """As an input, ``value`` is what is padded with; of another mode the original refuses it (4 of 4 asked)."""
    mode = str(attribute(found.node, "mode", "constant"))
    constant = mode == "constant"
    if not constant and "value" in found.node.attributes and not found.exact:
        raise UnsupportedError(
            f"Pad {found.node.name} has the mode {mode!r} and a value, which the original's conversion to operator set "
            "11 refuses: remove the attribute value, which means nothing there, or set compatibility: clean"
        )
    pads = found.constant(np.asarray(attribute(found.node, "pads", ()), np.int64))
    next(found.numbers)  # the converter makes two of each
    value = found.constant(np.asarray(attribute(found.node, "value", 0.0), np.float32)) if constant else None
    if constant:
        next(found.numbers)
    found.node.resize_inputs(2 if value is None else 3)
    for index, each in enumerate((pads, value)[: len(found.node.inputs) - 1], start=1):
        found.node.replace_input_with(index, each)
    _forget(found.node, "pads", "value")


def _resize(found: _Conversion) -> None:
    node = found.node
    rank = len(static_shape(node.inputs[0]) or ())
    scales, region = node.inputs[1], np.repeat(np.asarray([0, 1], np.float32), rank)
    node.resize_inputs(3)
    node.replace_input_with(1, found.constant(region))
    node.replace_input_with(2, scales)
    if not _repeats_whole_pixels(node):
        mark(node, MARK_OLD_RESIZE, str(_LEAST - 1))
        if found.exact:
            node.attributes["coordinate_transformation_mode"] = ir.AttrString(
                "coordinate_transformation_mode", "asymmetric"
            )
            node.attributes["nearest_mode"] = ir.AttrString("nearest_mode", "floor")


def _repeats_whole_pixels(node: ir.Node) -> bool:
    """Whether the result does not depend on where pixels lie: they are repeated, each equally often."""
    before, after = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    known = before is not None and after is not None and all(before)
    whole = known and all(large % small == 0 for small, large in zip(before or (), after or (), strict=True))
    return whole and str(attribute(node, "mode", "nearest")) == "nearest"


def _forget(node: ir.Node, *names: str) -> None:
    for name in names:
        node.attributes.pop(name, None)


_Steps = Mapping[str, Callable[[_Conversion], None]]
_FROM_9: _Steps = {"Upsample": _upsample, "Slice": _slice, "TopK": _top_k}
_FROM_10: _Steps = {"Clip": _clip, "Pad": _pad, "Resize": _resize}
