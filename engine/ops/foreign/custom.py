"""Operators of the user's own: registered from Python, placed on the CPU, computed with numpy in every stage.

In a model they are nodes ``PyOp`` of domain ``horizon.custom``. Attributes of such a node:

* ``class_name``: the name that the implementation is registered under, or of its class or function;
* ``compute``: the method that computes, ``compute`` where it is not given;
* ``module``: name of the Python file, which nothing depends on;
* ``input_types``, ``output_types``: ONNX's numbers of the types;
* ``output_shape``: one string per output, ``"1, 3, 8, 8"``;
* all others: arguments of the implementation's constructor, by name.

:class:`CustomNode` is the one place where they are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import ModelError, UnsupportedError
from engine.ir import attribute, shape_of
from engine.ops.foreign.custom_registry import REGISTRY, USER_ERRORS

Array = NDArray[Any]
Shape = tuple[int, ...]

CUSTOM_DOMAIN = "horizon.custom"
CUSTOM_VERSION = 1
CUSTOM_OP = "PyOp"
"""Why such nodes are on the CPU."""

_OWN_ATTRIBUTES = ("class_name", "compute", "module", "input_types", "output_types", "output_shape")
_METHODS = ("compute", "forward")
"""Methods that compute, where a node does not name one."""


def is_custom(node: ir.Node) -> bool:
    """Whether ``node`` is an operator of the user's own."""
    return node.domain == CUSTOM_DOMAIN and node.op_type == CUSTOM_OP


def adopt(node: ir.Node) -> bool:
    """Write a node of a foreign domain as ``PyOp`` where an operator of its type is registered; whether it is one now.

    Afterwards no pass can take it for the standard operator of the same name.
    """
    if is_custom(node):
        return True
    if REGISTRY.find(node.op_type) is None:
        return False
    node.attributes["class_name"] = ir.AttrString("class_name", node.op_type)
    node.domain, node.op_type, node.version = CUSTOM_DOMAIN, CUSTOM_OP, None
    return True


def set_output_types(node: ir.Node) -> None:
    """Give the outputs of a custom ``node`` the shapes and types that its registration or attributes state.

    Args:
        node: whose inputs have static shapes.

    Raises:
        UnsupportedError: the shapes are not stated, and no implementation is registered that would show them.
        ModelError: they do not fit the node.
    """
    for value, shape, dtype in zip(node.outputs, output_shapes(node), _output_types(node), strict=True):
        value.shape, value.type = ir.Shape(shape), ir.TensorType(dtype)


def output_shapes(node: ir.Node) -> list[Shape]:
    """Shapes of the outputs: of the registered shape function, else of attribute ``output_shape``, else by trying.

    A node may leave out the last of its outputs; here and elsewhere, what is said of them counts for nothing.

    Raises:
        UnsupportedError: as :func:`set_output_types`.
        ModelError: likewise.
    """
    infer = REGISTRY.find_shapes(_class_name(node))
    stated = _stated_shapes(node)
    if infer is not None:
        shapes = _inferred(node, infer)
    elif stated is not None:
        shapes = stated
    else:
        shapes = [array.shape for array in CustomNode(node, checked=False)(_zeros(node))]
    if len(shapes) < len(node.outputs):
        raise ModelError(f"{_where(node)} has {len(node.outputs)} outputs, shapes are given for {len(shapes)}")
    if any(dim < 0 for shape in shapes for dim in shape):
        raise ModelError(f"{_where(node)}: its outputs cannot have the shapes {shapes}")
    return shapes[: len(node.outputs)]


def with_batch(node: ir.Node, count: int) -> None:
    """State in ``output_shape``, where a node has it, the shapes for ``count`` samples in place of one."""
    stated = _stated_shapes(node)
    if stated is not None:
        texts = [", ".join(map(str, (count * shape[0], *shape[1:]) if shape else shape)) for shape in stated]
        node.attributes["output_shape"] = ir.AttrStrings("output_shape", texts)


class CustomNode:
    """One custom node, computed by an object of its own.

    Calls never overlap, so that an implementation may keep state while it computes.

    Args:
        node: of :data:`CUSTOM_OP`.
        checked: whether results must have the shapes of the node's outputs.

    Raises:
        UnsupportedError: nothing is registered under its name.
        ModelError: the implementation does not take the node's attributes.
    """

    def __init__(self, node: ir.Node, *, checked: bool = True) -> None:
        self._where = _where(node)
        self._types = [dtype.numpy() for dtype in _output_types(node)]
        self._shapes = [
            shape_of(value) if checked and value.shape is not None and value.shape.is_static() else None
            for value in node.outputs
        ]
        self._compute = _computation(node)
        self._lock = Lock()

    def __call__(self, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Outputs of the node, in its types; ``inputs`` in the node's order, None where one is omitted.

        Raises:
            ModelError: the implementation fails, or gives something else than the node's outputs.
        """
        try:
            with self._lock:
                result = self._compute(*inputs)
            results = list(result) if isinstance(result, list | tuple) else [result]
            arrays = [np.asarray(item, dtype, order="C") for item, dtype in zip(results, self._types, strict=False)]
        except USER_ERRORS as error:
            raise ModelError(f"{self._where} cannot be computed: {type(error).__name__}: {error}") from error
        if len(results) < len(self._types):
            raise ModelError(f"{self._where} has {len(self._types)} outputs, its code returns {len(results)}")
        for array, shape in zip(arrays, self._shapes, strict=True):
            if shape is not None and array.shape != shape:
                raise ModelError(f"{self._where}: its code returns shape {array.shape}, stated is {shape}")
        return tuple(arrays)


def _computation(node: ir.Node) -> Callable[..., Any]:
    """What to call with the inputs: a bound method of a new object, or the registered function."""
    name, where = _class_name(node), _where(node)
    implementation = REGISTRY.find(name)
    if implementation is None:
        raise UnsupportedError(f"{where}: no custom operator of this name is registered; {REGISTRY.how_to()}")
    arguments = _arguments(node)
    if not isinstance(implementation, type):
        return lambda *inputs: implementation(*inputs, **arguments)
    try:
        instance = implementation(**arguments)
    except USER_ERRORS as error:
        raise ModelError(f"{where} with attributes {sorted(arguments)}: {type(error).__name__}: {error}") from error
    wanted = _typed(node, "compute", ir.AttributeType.STRING)
    for method in _METHODS if wanted is None else (wanted,):
        found = getattr(instance, method, None)
        if callable(found):
            return _as_callable(found)
    raise ModelError(f"{where}: its class has no method {' or '.join(_METHODS if wanted is None else (wanted,))}")


def _as_callable(found: Any) -> Callable[..., Any]:
    def call(*inputs: Array | None) -> Any:
        return found(*inputs)

    return call


def _arguments(node: ir.Node) -> Mapping[str, Any]:
    """The node's attributes that are the implementation's own; tensors as arrays."""
    own = {name: item.value for name, item in node.attributes.items() if name not in _OWN_ATTRIBUTES}
    return MappingProxyType(
        {name: value.numpy() if isinstance(value, ir.TensorProtocol) else value for name, value in own.items()}
    )


def _inferred(node: ir.Node, infer: Callable[[list[list[int]]], Any]) -> list[Shape]:
    given = [[] if value is None else list(shape_of(value)) for value in node.inputs]
    try:
        return [tuple(int(dim) for dim in shape) for shape in infer(given)]
    except USER_ERRORS as error:
        raise ModelError(f"{_where(node)}: its shape function fails: {type(error).__name__}: {error}") from error


def _stated_shapes(node: ir.Node) -> list[Shape] | None:
    """Attribute ``output_shape``; ``None`` where it is absent."""
    stated = _typed(node, "output_shape", ir.AttributeType.STRINGS)
    return None if stated is None else [_parse_shape(node, text) for text in stated]


def _typed(node: ir.Node, name: str, kind: ir.AttributeType) -> Any:
    """The value of an attribute that ptqlab defines; ``None`` if it is absent.

    Raises:
        ModelError: it has another type.
    """
    found = node.attributes.get(name)
    if found is not None and found.type is not kind:
        raise ModelError(f"node {node.name} ({CUSTOM_OP}): attribute {name} is {found.type.name}, expected {kind.name}")
    return None if found is None else found.value


def _parse_shape(node: ir.Node, text: str) -> Shape:
    try:
        return tuple(int(part) for part in text.strip("[]() ").split(",") if part.strip())
    except ValueError:
        raise ModelError(f"{_where(node)}: output_shape {text!r} is no list of integers joined by commas") from None


def _output_types(node: ir.Node) -> list[ir.DataType]:
    """Types of the outputs: attribute ``output_types``, else all that of the first input."""
    stated = _typed(node, "output_types", ir.AttributeType.INTS)
    if stated is None:
        first = next((value.dtype for value in node.inputs if value is not None and value.dtype is not None), None)
        return [first or ir.DataType.FLOAT] * len(node.outputs)
    try:
        types = [ir.DataType(number) for number in stated]
        for kind in types:
            kind.numpy()
    except (TypeError, ValueError):
        raise ModelError(f"{_where(node)}: output_types {list(stated)} are no types of ONNX") from None
    if len(types) < len(node.outputs):
        raise ModelError(f"{_where(node)} has {len(node.outputs)} outputs, output_types are given for {len(types)}")
    return types[: len(node.outputs)]


def _zeros(node: ir.Node) -> list[Array | None]:
    return [
        None if value is None else np.zeros(shape_of(value), (value.dtype or ir.DataType.FLOAT).numpy())
        for value in node.inputs
    ]


def _class_name(node: ir.Node) -> str:
    name = _typed(node, "class_name", ir.AttributeType.STRING)
    if name is None:
        raise ModelError(f"node {node.name} ({CUSTOM_OP}): attribute class_name is missing")
    return str(name)


def _where(node: ir.Node) -> str:
    return f"node {node.name} ({CUSTOM_OP} {attribute(node, 'class_name', '')})"
