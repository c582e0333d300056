"""Networks written as Python text, so that a spelling of a function is one line."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]

HEAD = "c = Conv(x, W(8, 4, 3, 3), W(8), pads=[1, 1, 1, 1])\n"
"""A convolution of the input to eight channels, which a body continues."""
TAIL = "\nz = Conv(y, W(4, 8, 1, 1), W(4))"
"""A convolution of what a body computed, eight channels again."""


@dataclass
class _Network:
    """Nodes and constants of a text that is read."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)
    last: list[str] = field(default_factory=list)
    names: Iterator[int] = field(default_factory=count)
    weights: Counter[tuple[int, ...]] = field(default_factory=Counter)

    def statement(self, line: ast.stmt) -> None:
        if not isinstance(line, ast.Assign):
            raise SyntaxError(f"line {line.lineno} assigns nothing")
        target = line.targets[0]
        results = [ast.unparse(item) for item in (target.elts if isinstance(target, ast.Tuple) else [target])]
        unique = [f"{name}{next(self.names)}" if name in self.current else name for name in results]
        self.call(line.value, unique)
        self.current.update(zip(results, unique, strict=True))
        self.last = unique

    def call(self, call: ast.expr, results: Sequence[str]) -> None:
        if not isinstance(call, ast.Call):
            raise SyntaxError(f"{ast.unparse(call)} is no call")
        op_type = ast.unparse(call.func)
        if op_type == "W":
            shape = tuple(ast.literal_eval(item) for item in call.args)
            self.weights[shape] += 1
            rng = np.random.default_rng((*shape, self.weights[shape]))
            scale = np.sqrt(3.0 / max(1.0, float(np.prod(shape[1:]))))
            self.constants[results[0]] = rng.uniform(-scale, scale, shape).astype(np.float32)
            return
        inputs = [self.operand(item) for item in call.args]
        attributes = {str(item.arg): ast.literal_eval(item.value) for item in call.keywords}
        self.nodes.append(
            helper.make_node(op_type, inputs, list(results), name=f"{op_type}_{len(self.nodes)}", **attributes)
        )

    def operand(self, item: ast.expr) -> str:
        """Name of a value: itself, a nested call or a constant; nothing for ``None``."""
        if isinstance(item, ast.Name):
            return self.current.get(item.id, item.id)
        name = f"t{next(self.names)}"
        if isinstance(item, ast.Call):
            self.call(item, [name])
            return name
        number = ast.literal_eval(item)
        if number is None:
            return ""
        array = np.asarray(number)
        self.constants[name] = array.astype(np.float32 if array.dtype.kind == "f" else array.dtype)
        return name


def network(text: str, opset: int = 13, shape: Sequence[int] = (1, 4, 8, 8)) -> onnx.ModelProto:
    """The model of ``text``: an assignment a line, float32 input ``x`` of ``shape``, the last results its outputs.

    A call is a node, its keywords are attributes; ``None`` is an absent input; a float is float32, an int or a list of
    them int64; ``W(n, m)`` are weights of that shape, the same in every text that has as many of that shape before.
    """
    found = _Network()
    for line in ast.parse(text).body:
        found.statement(line)
    graph = helper.make_graph(
        found.nodes,
        "spelled",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info(name) for name in found.last],
        [numpy_helper.from_array(array, name) for name, array in found.constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    del model.graph.output[:]
    model.graph.output.extend(inferred.graph.output)
    return model
