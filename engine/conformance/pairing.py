"""Two calibrated models side by side: which float nodes are the same, and what distinguishes the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from engine.conformance.stripped import LARGEST_KEPT
from engine.ir import HORIZON_DOMAIN, before_calibration, constant_of, is_calibration

CONSTANT_TOLERANCE = 1e-6
"""Relative difference of equal constants and attributes."""


@dataclass(frozen=True)
class Pairing:
    """How far two graphs are the same.

    Attributes:
        names: the second graph's name by the first's, of all tensors that were paired.
        difference: the first node of the first graph that differs in more than names and weights, and how; ``None``
            where none does.
        renamed: the first node or tensor that has another name; ``None`` where all are equal.
        weight: the first constant of many numbers that holds others, and how; ``None`` where all are equal.
    """

    names: Mapping[str, str]
    difference: tuple[str, str] | None
    renamed: tuple[str, str] | None
    weight: tuple[str, str] | None = None


def pair(first: ir.Model, second: ir.Model) -> Pairing:
    """Pair the nodes of two models, ``HzCalibration`` aside, by name, else by place and operator."""
    expected, actual = (_float_nodes(model) for model in (first, second))
    partners = _partners(expected, actual)
    names: dict[str, str] = {}
    renamed: tuple[str, str] | None = None
    weight: tuple[str, str] | None = None
    for index, node in enumerate(expected):
        other = partners.get(node)
        if other is None:
            beside = f"{actual[index].op_type} {actual[index].name}" if index < len(actual) else "nothing"
            return Pairing(names, (str(node.name), f"ours has no such {node.op_type}, {beside} in its place"), renamed)
        difference = next(_differences(node, other, names), None)
        if difference is not None:
            return Pairing(names, (str(node.name), difference), renamed)
        constants = tuple(_constants(node, other))
        names |= {str(a.name): str(b.name) for a, b in (*zip(node.outputs, other.outputs, strict=False), *constants)}
        renamed = renamed or next(_renamings(node, other), None)
        weight = weight or next(_weight_differences(constants), None)
    return Pairing(names, _rest(expected, actual, partners), renamed, weight)


def graph_agreement(first: ir.Model, second: ir.Model) -> int:
    """How many more nodes, ``HzCalibration`` aside, are the same in both by name than are in one of them alone.

    The same in operator, inputs, attributes and results, and in names and numbers of constants.
    """
    expected, actual = (_float_nodes(model) for model in (first, second))
    by_name = {str(node.name): node for node in actual}
    pairs = ((node, by_name.get(str(node.name))) for node in expected)
    same = sum(other is not None and _same(node, other) for node, other in pairs)
    return 3 * same - len(expected) - len(actual)


def _same(node: ir.Node, other: ir.Node) -> bool:
    """Whether two nodes of one name differ in nothing."""
    if next(_differences(node, other, {}), None) or next(_renamings(node, other), None):
        return False
    constants = tuple(_constants(node, other))
    return all(a.name == b.name for a, b in constants) and not next(_weight_differences(constants), None)


def _float_nodes(model: ir.Model) -> list[ir.Node]:
    return [node for node in model.graph if not is_calibration(node)]


def _partners(expected: list[ir.Node], actual: list[ir.Node]) -> dict[ir.Node, ir.Node]:
    by_name = {str(node.name): node for node in actual}
    known = {str(node.name) for node in expected}
    found = {}
    for index, node in enumerate(expected):
        other = by_name.get(str(node.name))
        if other is None and index < len(actual):
            placed = actual[index]
            other = placed if placed.op_type == node.op_type and str(placed.name) not in known else None
        if other is not None:
            found[node] = other
    return found


def _rest(
    expected: list[ir.Node], actual: list[ir.Node], partners: Mapping[ir.Node, ir.Node]
) -> tuple[str, str] | None:
    """What is left where all nodes of the first graph have an equal partner: more nodes, or another order."""
    paired = set(partners.values())
    for node in actual:
        if node not in paired:
            return str(node.name), f"only ours has this {node.op_type}"
    for node, other in zip(expected, actual, strict=True):
        if partners[node] is not other:
            return str(node.name), f"order: ours has {other.name} in its place"
    return None


def _differences(node: ir.Node, other: ir.Node, names: Mapping[str, str]) -> Iterator[str]:
    """What distinguishes a pair in more than names, in words."""
    if node.op_type != other.op_type:
        yield f"{node.op_type} | {other.op_type}"
        return
    if len(node.inputs) != len(other.inputs):
        yield f"reads {len(node.inputs)} tensors | {len(other.inputs)}"
    for a, b in zip(node.inputs, other.inputs, strict=False):
        yield from _input_differences(a, b, names)
    for name in sorted({*node.attributes, *other.attributes}):
        left, right = _attribute(node, name), _attribute(other, name)
        if not (_equal(left, right) or _same_axes(node, name, left, right) or _unset(node, left, right)):
            yield f"attribute {name}: {left} | {right}"


def _input_differences(a: ir.Value | None, b: ir.Value | None, names: Mapping[str, str]) -> Iterator[str]:
    if a is None or b is None:
        if a is not b:
            yield f"reads {a and a.name} | {b and b.name}"
        return
    first, second = before_calibration(a), before_calibration(b)
    left, right = constant_of(first), constant_of(second)
    if left is None or right is None:
        if left is not None or right is not None or names.get(str(first.name), str(first.name)) != str(second.name):
            yield f"reads {first.name} | {second.name}"
    elif left.shape != right.shape or (_decides_structure(left) and not _equal(left, right)):
        yield f"constant {first.name}: {_text(left)} | {_text(right)}"


def _decides_structure(array: Any) -> bool:
    """Whether a constant is a shape, an index or a limit rather than a weight."""
    return bool(array.size == 1 or (array.size <= LARGEST_KEPT and array.dtype.kind in "iub"))


def _constants(node: ir.Node, other: ir.Node) -> Iterator[tuple[ir.Value, ir.Value]]:
    """The constants of a pair of equal nodes."""
    for a, b in zip(node.inputs, other.inputs, strict=True):
        if a is not None and b is not None and constant_of(before_calibration(a)) is not None:
            yield before_calibration(a), before_calibration(b)


def _weight_differences(constants: Iterable[tuple[ir.Value, ir.Value]]) -> Iterator[tuple[str, str]]:
    for a, b in constants:
        left, right = np.asarray(constant_of(a)), np.asarray(constant_of(b))
        if not _equal(left, right):
            count = int(np.sum(~np.isclose(left, right, rtol=CONSTANT_TOLERANCE, atol=0.0)))
            yield str(a.name), f"{count} of {left.size} numbers differ, by up to {np.max(np.abs(left - right)):.3g}"


def _renamings(node: ir.Node, other: ir.Node) -> Iterator[tuple[str, str]]:
    if node.name != other.name:
        yield str(node.name), f"ours is called {other.name}"
    for a, b in zip(node.outputs, other.outputs, strict=False):
        if a.name != b.name:
            yield str(node.name), f"output {a.name} | {b.name}"


def _attribute(node: ir.Node, name: str) -> Any:
    """The value of an attribute, or the one that the operator has without it."""
    found = node.attributes.get(name)
    if found is not None:
        return found.value.numpy() if isinstance(found.value, ir.TensorProtocol) else found.value
    if node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type):
        return None
    attribute = onnx.defs.get_schema(node.op_type, 11).attributes.get(name)
    if attribute is None or not attribute.default_value.name:
        return None
    default = onnx.helper.get_attribute_value(attribute.default_value)
    return default.decode() if isinstance(default, bytes) else default


def _same_axes(node: ir.Node, name: str, left: Any, right: Any) -> bool:
    """Whether axes are the same ones, counted from the front and from the back."""
    shape = node.inputs[0].shape if node.inputs and node.inputs[0] is not None else None
    if name not in ("axis", "axes") or shape is None or left is None or right is None:
        return False
    return bool(np.array_equal(np.asarray(left) % len(shape), np.asarray(right) % len(shape)))


def _unset(node: ir.Node, left: Any, right: Any) -> bool:
    """Whether an operator of the original's own has a switch off on one side and does not mention it on the other."""
    return node.domain == HORIZON_DOMAIN and {repr(left), repr(right)} == {"0", "None"}


def _equal(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    a, b = np.asarray(left), np.asarray(right)
    if a.shape != b.shape:
        return False
    if a.dtype.kind in "fiub" and b.dtype.kind in "fiub":
        return bool(np.allclose(a, b, rtol=CONSTANT_TOLERANCE, atol=CONSTANT_TOLERANCE * _largest(a), equal_nan=True))
    return bool(np.array_equal(a, b))


def _largest(array: Any) -> float:
    finite = np.abs(np.asarray(array, np.float64))
    return float(np.max(finite[np.isfinite(finite)], initial=0.0))


def _text(array: Any) -> str:
    return str(array.tolist()) if array.size <= LARGEST_KEPT else f"{array.dtype}{list(array.shape)}"
