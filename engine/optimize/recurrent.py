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
"""Longest sequence that is unrolled: every step is about a dozen nodes (8 steps are measured,
reference/operators.md).
"""

GATES = ("input", "output", "forget", "cell")
"""Order of the gates in ONNX's weights."""


@dataclass(frozen=True)
class _Lstm:
    """A forward ``LSTM`` without peepholes that starts from zero.

    Attributes:
        kernels: input weights per gate, float32, shape (hidden, features, 1, 1).
        recurrences: recurrent weights per gate, float32, shape (hidden, hidden, 1, 1).
        biases: of the input per gate, float32, shape (hidden,).
        recurrent_biases: of the hidden state per gate, float32, shape (hidden,).
        steps, batch, features, hidden: sizes.
    """

    kernels: Mapping[str, Array]
    recurrences: Mapping[str, Array]
    biases: Mapping[str, Array]
    recurrent_biases: Mapping[str, Array]
    steps: int
    batch: int
    features: int
    hidden: int


class UnrollLstm(NodePass):
    """A forward ``LSTM`` of constant weights becomes its steps, with names ``<node>_...`` and ``..._of_<node>``.

    One convolution per gate takes all steps at once, its result is split; at every step a convolution of the hidden
    state adds to it. States start at zero: the first step has no forget gate, and adds the bias of the hidden state by
    itself, as the original does (reference/operators.md, the case of LSTM). Other forms (reverse, peepholes,
    given states or lengths, other activations, long sequences) stay.
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
        self._constants: dict[str, ir.Value] = {}

    def gate_inputs(self) -> dict[str, Sequence[ir.Value]]:
        """What the input adds to each gate, per step."""
        lstm = self.lstm
        rows = self._reshape("input_reshape", self.node.inputs[0], (lstm.steps * lstm.batch, lstm.features, 1, 1))
        batch = lstm.steps * lstm.batch
        wholes = {gate: self._conv(f"{gate}_x", rows, lstm.kernels[gate], batch, lstm.biases[gate]) for gate in GATES}
        return {gate: self._split(f"{gate}_split", whole) for gate, whole in wholes.items()}

    def steps(self, inputs: Mapping[str, Sequence[ir.Value]]) -> tuple[list[ir.Value], ir.Value]:
        """The hidden state after every step, and the last cell state."""
        states: list[ir.Value] = []
        cell: ir.Value | None = None
        for step in range(self.lstm.steps):
            hidden = states[-1] if states else None
            totals = {gate: inputs[gate][step] for gate in GATES}
            opened = self._gate("input", step, totals, hidden)
            new = self._op("Mul", f"new_{step}", opened, self._gate("cell", step, totals, hidden))
            if cell is None:
                cell = new
            else:
                kept = self._op("Mul", f"kept_{step}", self._gate("forget", step, totals, hidden), cell)
                cell = self._op("Add", f"state_{step}", kept, new)
            shown = self._gate("output", step, totals, hidden)
            states.append(self._op("Mul", f"hidden_{step}", shown, self._op("Tanh", f"state_tanh_{step}", cell)))
        if cell is None:
            raise ValueError(f"node {self.node.name!r} has no steps")
        return states, cell

    def _gate(self, gate: str, step: int, inputs: Mapping[str, ir.Value], hidden: ir.Value | None) -> ir.Value:
        """The value of ``gate`` at ``step`` from what the input adds to it and the hidden state before."""
        lstm, bias = self.lstm, self.lstm.recurrent_biases[gate]
        total = inputs[gate]
        if hidden is not None:
            own = self._conv(f"{gate}_h_{step}", hidden, lstm.recurrences[gate], lstm.batch, bias, gate)
            total = self._op("Add", f"{gate}_sum_{step}", own, total)
        elif np.any(bias):
            whole = np.broadcast_to(bias.reshape(1, -1, 1, 1), (lstm.batch, lstm.hidden, 1, 1))
            alone = self._constant(f"{self.node.name}_{gate}_first", whole)
            total = self._op("Add", f"{gate}_sum_{step}", total, alone)
        return self._op("Tanh" if gate == "cell" else "Sigmoid", f"{gate}_{step}", total)

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
            if index == 0 and lstm.batch == 1:
                found[output] = self._op("Transpose", "output_transpose", source, shape=shape, perm=(0, 2, 3, 1))
            else:
                found[output] = self._reshape(f"output_reshape_{index}", source, shape)
        return found

    def _op(
        self, op_type: str, suffix: str, *inputs: ir.Value | None, shape: Sequence[int] = (), **attributes: Any
    ) -> ir.Value:
        """A node of the cell; in the original's node table only convolutions and splits begin with its name."""
        name = f"{self.node.name}_{suffix}" if op_type == "Conv" else f"{suffix}_of_{self.node.name}"
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

    def _conv(self, suffix: str, x: ir.Value, weight: Array, batch: int, bias: Array, shared: str = "") -> ir.Value:
        """A 1x1 convolution; the steps of one gate have weight and bias ``shared`` under that name."""
        stem = f"{self.node.name}_{shared}_recurrence" if shared else f"{self.node.name}_{suffix}"
        inputs = [x, self._constant(f"{stem}_weight", weight)]
        if np.any(bias):
            inputs.append(self._constant(f"{stem}_bias", bias))
        geometry = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], "group": 1}
        return self._op("Conv", suffix, *inputs, shape=(batch, self.lstm.hidden, 1, 1), **geometry)

    def _constant(self, name: str, array: Array) -> ir.Value:
        """The initializer ``name`` of this cell, made once."""
        if name not in self._constants:
            self._constants[name] = add_initializer(graph_of(self.node), name, np.ascontiguousarray(array))
        return self._constants[name]

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
        biases=per_gate(both[0]),
        recurrent_biases=per_gate(both[1]),
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
