"""A graph that grows node by node; shapes are inferred by ONNX, so that every graph is valid."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, TypeProto, defs, helper, numpy_helper, shape_inference

Array = NDArray[Any]


class MisfitError(Exception):
    """A node that does not fit its inputs; nothing was appended."""


@dataclass
class Maker:
    """Nodes, constants and the shape of every tensor.

    Attributes:
        opset: of the operators.
        rng: decides the structure.
        data: gives the constants' values.
        types: of all tensors by name.
        values: of the initializers by name.
        listed: those that are inputs too.
        constants: how many were made.
        maps: tensors to go on from: float32, rank 4, batch 1.
        rest: all other tensors of float32 that are not constant.
    """

    opset: int
    rng: random.Random
    data: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    types: dict[str, TypeProto] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    listed: list[str] = field(default_factory=list)
    constants: int = 0
    maps: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)

    def input(self, *shape: int) -> str:
        """One more input."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.types[name] = helper.make_tensor_type_proto(TensorProto.FLOAT, shape)
        return self._offered(name)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return tuple(dim.dim_value for dim in self.types[name].tensor_type.shape.dim)

    def constant(self, array: Any, dtype: Any = np.float32) -> str:
        """An initializer, one that is an input too, or a Constant node; floats also behind a node that is folded."""
        values = np.asarray(array, dtype)
        name, way = f"c{self.constants}", self.rng.random()
        self.constants += 1
        if 0.15 < way < 0.3:
            self._append("Constant", [], [name], value=numpy_helper.from_array(values, name))
            return name
        self.values[name] = values
        self.types[name] = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(values.dtype), values.shape)
        if way < 0.15:
            self.listed.append(name)
        elif way < 0.4 and values.dtype == np.float32 and values.ndim > 1:
            axes = list(range(values.ndim))[::-1]
            self.values[name] = np.ascontiguousarray(values.transpose(axes))
            self.types[name] = helper.make_tensor_type_proto(TensorProto.FLOAT, values.shape[::-1])
            return self.op("Transpose", name, perm=axes, offered=False)
        elif way < 0.45 and values.dtype == np.float32:
            return self.op("Identity", name, offered=False)
        return name

    def ints(self, *values: int) -> str:
        """A constant of int64, shape (n,)."""
        return self.constant(values, np.int64)

    def weight(self, *shape: int, fan_in: int = 0) -> str:
        """A constant of normal values; sometimes one of this shape that is there already."""
        same = [name for name, array in self.values.items() if array.shape == shape and array.dtype == np.float32]
        if same and self.rng.random() < 0.4:
            return self.rng.choice(same)
        scale = 1 / np.sqrt(fan_in or max(1, int(np.prod(shape[1:]))))
        return self.constant(self.data.normal(size=shape) * scale)

    def op(self, op_type: str, *given: str, outputs: int = 1, offered: bool = True, **attributes: Any) -> str:
        """Append a node; its first output. Empty names of ``given`` are omitted inputs.

        Raises:
            MisfitError: ONNX's shape inference refuses it, or a size becomes 0 or more than 2^16.
        """
        number = len(self.nodes)
        names = [f"t{number}", *(f"t{number}_{index}" for index in range(1, outputs))]
        for index in range(1, outputs):
            if op_type in ("Dropout", "MaxPool") and self.rng.random() < 0.5:
                names[index] = ""
        self._append(op_type, list(given), names, **attributes)
        if offered:
            for name in filter(None, names):
                self._offered(name)
        return names[0]

    def _append(self, op_type: str, given: Sequence[str], names: Sequence[str], **attributes: Any) -> None:
        kept = {key: value for key, value in attributes.items() if value is not None}
        label = "" if self.rng.random() < 0.3 else f"{op_type}_{len(self.nodes)}"
        node = helper.make_node(op_type, given, names, name=label, **kept)
        known = {name: self.types[name] for name in given if name}
        small = {
            name: numpy_helper.from_array(self.values[name], name)
            for name in known
            if name in self.values and self.values[name].dtype == np.int64
        }
        small |= {name: value for name in known if (value := self._of_node(name)) is not None}
        try:
            schema = defs.get_schema(op_type, self.opset, "")
            found = shape_inference.infer_node_outputs(
                schema, node, known, small, opset_imports=[helper.make_opsetid("", self.opset)]
            )
        except (onnx.shape_inference.InferenceError, defs.SchemaError, onnx.checker.ValidationError) as error:
            raise MisfitError(str(error)) from error
        for name in filter(None, names):
            if name not in found or not found[name].tensor_type.HasField("shape"):
                raise MisfitError(f"{op_type}: no shape")
            dims = found[name].tensor_type.shape.dim
            sizes = [dim.dim_value for dim in dims]
            if not all(dim.HasField("dim_value") for dim in dims) or not 0 < int(np.prod(sizes)) <= 1 << 16:
                raise MisfitError(f"{op_type}: {sizes}")
        self.types |= {name: found[name] for name in names if name}
        self.nodes.append(node)

    def _of_node(self, name: str) -> TensorProto | None:
        """The value of a Constant node."""
        for node in reversed(self.nodes):
            if name in node.output:
                return node.attribute[0].t if node.op_type == "Constant" else None
        return None

    def _offered(self, name: str) -> str:
        kind, shape = self.types[name].tensor_type.elem_type, self.shape(name)
        if kind == TensorProto.FLOAT:
            (self.maps if len(shape) == 4 and shape[0] == 1 else self.rest).append(name)
        return name

    def finish(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """The model; nodes that lead to none of ``outputs`` stay."""
        used = {name for node in self.nodes for name in node.input}
        listed = [name for name in self.listed if name in used]
        self.rng.shuffle(listed)
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_value_info(name, self.types[name]) for name in (*self.inputs, *listed)],
            [helper.make_value_info(name, self.types[name]) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.values.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model
