"""``LSTM`` over a short sequence, unrolled into convolutions of single pixels and element-wise operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.ir import attribute
from engine.optimize.base import (
    Array,
    NodePass,
    add_initializer,
    constant,
    graph_of,
    make_node,
    make_split,
    static_shape,
)

MAX_STEPS = 64
"""Longest sequence that is unrolled: every step is about a dozen nodes (8 steps are measured, OPERATORS.md)."""

GATES = ("input", "output", "forget", "cell")
"""Order of the gates in ONNX's weights."""


@dataclass(frozen=True)
class _Lstm:
    """A forward ``LSTM`` without peepholes that starts from zero.

    Attributes:
        kernels: input weights per gate, float32, shape (hidden, features, 1, 1).
        recurrences: recurrent weights per gate, float32, shape (hidden, hidden, 1, 1).
        biases: sum of both biases per gate, float32, shape (hidden,).
        steps, batch, features, hidden: sizes.
    """

    kernels: Mapping[str, Array]
    recurrences: Mapping[str, Array]
    biases: Mapping[str, Array]
    steps: int
    batch: int
    features: int
    hidden: int


class UnrollLstm(NodePass):
    """A forward ``LSTM`` of constant weights becomes its steps, with names ``<node>_...``.

    One convolution per gate takes all steps at once, its result is split; at every step a convolution of the hidden
    state adds to it. States start at zero, so that the first step has neither. Other forms (reverse, peepholes, given
    states or lengths, other activations, long sequences) stay.
    """

    op_types = frozenset({"LSTM"})

    def rewrite(self, node: ir.Node) -> bool:
        lstm = _read(node)
        if lstm is None:
            return False
        unrolled = _Unrolled(node, lstm)
        hidden, cell = unrolled.steps(unrolled.gate_inputs())
        results = unrolled.results(hidden, cell)
        kept = [value for value in node.outputs if value in results]
        ir.convenience.replace_nodes_and_values(
            graph_of(node), node, [node], unrolled.nodes, kept, [results[value] for value in kept]
        )
        return True


class _Unrolled:
    """Appends the nodes of an unrolled cell; states are maps of shape (batch, hidden, 1, 1)."""

    def __init__(self, node: ir.Node, lstm: _Lstm) -> None:
        self.node, self.lstm = node, lstm
        self.nodes: list[ir.Node] = []

    def gate_inputs(self) -> dict[str, Sequence[ir.Value]]:
        """What the input adds to each gate, per step."""
        lstm = self.lstm
        rows = self._reshape("input_reshape", self.node.inputs[0], (lstm.steps * lstm.batch, lstm.features, 1, 1))
        found = {}
        for gate in GATES:
            whole = self._conv(f"{gate}_x", rows, lstm.kernels[gate], lstm.steps * lstm.batch, lstm.biases[gate])
            found[gate] = self._split(f"{gate}_split", whole)
        return found

    def steps(self, inputs: Mapping[str, Sequence[ir.Value]]) -> tuple[list[ir.Value], ir.Value]:
        """The hidden state after every step, and the last cell state."""
        states: list[ir.Value] = []
        cell: ir.Value | None = None
        for step in range(self.lstm.steps):
            gates = {}
            for gate in GATES:
                if gate == "forget" and cell is None:
                    continue
                total = inputs[gate][step]
                if states:
                    name = f"{gate}_h_{step}"
                    own = self._conv(name, states[-1], self.lstm.recurrences[gate], self.lstm.batch, None, gate)
                    total = self._op("Add", f"{gate}_sum_{step}", own, total)
                gates[gate] = self._op("Tanh" if gate == "cell" else "Sigmoid", f"{gate}_{step}", total)
            new = self._op("Mul", f"new_{step}", gates["input"], gates["cell"])
            kept = None if cell is None else self._op("Mul", f"kept_{step}", gates["forget"], cell)
            cell = new if kept is None else self._op("Add", f"state_{step}", kept, new)
            states.append(
                self._op("Mul", f"hidden_{step}", gates["output"], self._op("Tanh", f"state_tanh_{step}", cell))
            )
        if cell is None:
            raise ValueError(f"node {self.node.name!r} has no steps")
        return states, cell

    def results(self, states: Sequence[ir.Value], cell: ir.Value) -> dict[ir.Value, ir.Value]:
        """What replaces the outputs of the node that have readers: all hidden states, the last one, the last cell."""
        lstm, found = self.lstm, {}
        shapes = ((lstm.steps, 1, lstm.batch, lstm.hidden), *2 * ((1, lstm.batch, lstm.hidden),))
        for index, (output, shape) in enumerate(zip(self.node.outputs, shapes, strict=False)):
            if not output.uses() and not output.is_graph_output():
                continue
            source = (states[-1], states[-1], cell)[index]
            if index == 0 and lstm.steps > 1:
                source = self._op(
                    "Concat", "concat", *states, shape=(lstm.steps * lstm.batch, lstm.hidden, 1, 1), axis=0
                )
            found[output] = self._reshape(f"output_reshape_{index}", source, shape)
        return found

    def _op(
        self, op_type: str, suffix: str, *inputs: ir.Value | None, shape: Sequence[int] = (), **attributes: Any
    ) -> ir.Value:
        name = f"{self.node.name}_{suffix}"
        self.nodes.append(
            make_node(
                op_type,
                inputs,
                name=name,
                output=f"{name}_output",
                like=self.node.inputs[0],
                shape=shape or (self.lstm.batch, self.lstm.hidden, 1, 1),
                attributes=attributes,
            )
        )
        return self.nodes[-1].outputs[0]

    def _reshape(self, suffix: str, value: ir.Value | None, shape: Sequence[int]) -> ir.Value:
        target = add_initializer(graph_of(self.node), f"{self.node.name}_{suffix}_shape", np.asarray(shape, np.int64))
        return self._op("Reshape", suffix, value, target, shape=shape)

    def _conv(
        self, suffix: str, x: ir.Value, weight: Array, batch: int, bias: Array | None, shared: str = ""
    ) -> ir.Value:
        """A 1x1 convolution; the steps of one gate have a weight ``shared`` under that name."""
        graph = graph_of(self.node)
        name = f"{self.node.name}_{shared or suffix}_{'recurrence' if shared else 'weight'}"
        known = graph.initializers.get(name) if shared else None
        inputs = [x, known if known is not None else add_initializer(graph, name, weight)]
        if bias is not None:
            inputs.append(add_initializer(graph, f"{self.node.name}_{suffix}_bias", bias))
        geometry = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], "group": 1}
        return self._op("Conv", suffix, *inputs, shape=(batch, self.lstm.hidden, 1, 1), **geometry)

    def _split(self, suffix: str, value: ir.Value) -> Sequence[ir.Value]:
        """``value`` per step."""
        if self.lstm.steps == 1:
            return [value]
        sizes = [self.lstm.batch] * self.lstm.steps
        self.nodes.append(make_split(graph_of(self.node), value, 0, sizes, f"{self.node.name}_{suffix}"))
        return self.nodes[-1].outputs


def _read(node: ir.Node) -> _Lstm | None:
    """The cell that ``node`` is; ``None`` where it is none that can be unrolled."""
    shape = static_shape(node.inputs[0])
    arrays = [constant(value) for value in node.inputs[1:4]]
    weight, recurrence, bias = (*arrays, None)[:3]
    has_bias = len(node.inputs) > 3 and node.inputs[3] is not None
    if shape is None or weight is None or recurrence is None or (has_bias and bias is None):
        return None
    if not _starts_from_zero(node) or not 1 <= shape[0] <= MAX_STEPS or weight.dtype != np.float32:
        return None
    plain = {"direction": "forward", "layout": 0, "input_forget": 0, "clip": 0.0, "hidden_size": recurrence.shape[2]}
    if any(attribute(node, name, value) != value for name, value in plain.items()):
        return None
    if tuple(attribute(node, "activations", _ACTIVATIONS)) != _ACTIVATIONS:
        return None
    hidden = int(recurrence.shape[2])
    both = np.zeros((2, 4 * hidden), np.float32) if bias is None else bias[0].reshape(2, -1)

    def per_gate(array: Array, *tail: int) -> dict[str, Array]:
        return dict(zip(GATES, array.reshape(4, hidden, *tail), strict=True))

    return _Lstm(
        kernels=per_gate(weight[0], shape[2], 1, 1),
        recurrences=per_gate(recurrence[0], hidden, 1, 1),
        biases=per_gate(both.sum(axis=0)),
        steps=shape[0],
        batch=shape[1],
        features=shape[2],
        hidden=hidden,
    )


_ACTIVATIONS = ("Sigmoid", "Tanh", "Tanh")


def _starts_from_zero(node: ir.Node) -> bool:
    """Whether lengths and peepholes are absent, and initial states absent or constant zeros."""
    lengths, hidden, cell, peepholes = (*node.inputs[4:], None, None, None, None)[:4]
    states = [constant(value) for value in (hidden, cell) if value is not None]
    return lengths is None and peepholes is None and all(array is not None and not array.any() for array in states)
