"""``LSTM`` over a short sequence, unrolled into convolutions of single pixels and element-wise operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, static_shape
from engine.optimize.base import (
    Array,
    NodePass,
    add_initializer,
    graph_of,
    initializer_of,
    make_node,
    make_split,
    substitute_outputs,
)

MAX_STEPS = 64
"""Longest sequence that is unrolled: every step is about a dozen nodes (8 steps are measured,
reference/operators.md).
"""

GATES = ("input", "output", "forget", "cell")
"""Order of the gates in ONNX's weights."""

DIRECTIONS = {"forward": (1,), "reverse": (-1,), "bidirectional": (1, -1)}
"""In which order each direction of a cell takes the steps."""


@dataclass(frozen=True)
class _Lstm:
    """An ``LSTM`` without peepholes.

    Attributes:
        weights, recurrences: of all gates of all directions, float32, shape (directions * 4 * hidden, features) or
            (…, hidden), with the name in the source.
        biases: of the input, then of the hidden state, per direction, float32, shape (directions * 8 * hidden,);
            ``None`` without.
        orders: 1 or -1 per direction.
        steps, batch, features, hidden: sizes.
        given: hidden state and cell before the first step, each of shape (directions, batch, hidden); none of zeros.
    """

    weights: ir.Value
    recurrences: ir.Value
    biases: ir.Value | None
    orders: tuple[int, ...]
    steps: int
    batch: int
    features: int
    hidden: int
    given: tuple[ir.Value, ...] = ()

    def kernel_rows(self, direction: int, gate: str) -> tuple[int, int]:
        """Rows of ``weights`` and ``recurrences`` that are those of ``gate``."""
        first = (4 * direction + GATES.index(gate)) * self.hidden
        return first, first + self.hidden

    def bias_rows(self, direction: int, gate: str, *, recurrent: bool) -> tuple[int, int]:
        """Elements of ``biases`` that are those of ``gate``."""
        first = (8 * direction + 4 * recurrent + GATES.index(gate)) * self.hidden
        return first, first + self.hidden


class UnrollLstm(NodePass):
    """An ``LSTM`` of constant weights becomes its steps, nodes ``<kind>_<node>_<number>`` in the order they are made.

    The sequence is a line of pixels. One convolution per gate takes all steps at once and its result is split; at every
    step a convolution of the hidden state adds to it. States start at zero: the first step has no forget gate, and adds
    the bias of the hidden state by itself. Those that are given, inputs of the network too, are moved to pixels in
    front of a direction, of two directions their parts (nine asked on two marches). Directions are joined per step
    along the width, steps and last states along the batch.
    Results have the names that these nodes give them. All 1123 nodes of ``crnn_lstm`` on three marches, and the case of
    LSTM of reference/operators.md. Other forms (peepholes, lengths, other activations, long sequences) stay.
    """

    op_types = frozenset({"LSTM"})

    def rewrite(self, node: ir.Node) -> bool:
        lstm = _read(node)
        if lstm is None:
            return False
        unrolled = _Unrolled(node, lstm)
        line = unrolled.line()
        runs = [unrolled.direction(line, index) for index in range(len(lstm.orders))]
        results = unrolled.results(runs)
        names = {value: value.name for value in results.values()}
        substitute_outputs(node, unrolled.nodes, results)
        for value, name in names.items():
            if not value.is_graph_output():
                value.name = name
        return True

    def remains(self, node: ir.Node) -> bool:
        """One that can be unrolled."""
        return _read(node) is not None


@dataclass(frozen=True)
class _Run:
    """What one direction computes.

    Attributes:
        hidden: state after every step of the sequence, in its order, shape (batch, hidden, 1, 1).
        last: state and cell after the step that this direction takes last.
    """

    hidden: Sequence[ir.Value]
    last: tuple[ir.Value, ir.Value]


class _Unrolled:
    """Appends the nodes of an unrolled cell."""

    def __init__(self, node: ir.Node, lstm: _Lstm) -> None:
        self.node, self.lstm = node, lstm
        self.nodes: list[ir.Node] = []
        self._left_out = 0
        self._constants: dict[str, ir.Value] = {}

    def line(self) -> ir.Value:
        """The sequence as a line of pixels, shape (batch, features, 1, steps)."""
        lstm = self.lstm
        apart = (lstm.steps, lstm.batch, lstm.features, 1)
        rows = self._reshape(self.node.inputs[0], apart)
        return self._op("Transpose", rows, shape=(lstm.batch, lstm.features, 1, lstm.steps), perm=(1, 2, 3, 0))

    def direction(self, line: ir.Value, index: int) -> _Run:
        """The steps of direction ``index``."""
        lstm, order = self.lstm, self.lstm.orders[index]
        begin = self._begin(index)
        shape = (lstm.batch, lstm.hidden, 1, lstm.steps)
        wholes = [
            self._product("conv", line, lstm.weights, index, gate, recurrent=False, shape=shape) for gate in GATES
        ]
        parts = {gate: self._split(whole) for gate, whole in zip(GATES, wholes, strict=True)}
        states: list[tuple[ir.Value, ir.Value]] = []
        for step in range(lstm.steps)[::order]:
            given = {gate: values[step] for gate, values in parts.items()}
            states.append(self._step(index, given, states[-1] if states else begin))
        return _Run([hidden for hidden, _ in states[::order]], states[-1])

    def _begin(self, index: int) -> tuple[ir.Value, ir.Value] | None:
        """Hidden state and cell before the first step of direction ``index``; ``None`` of zeros."""
        lstm = self.lstm
        states: list[ir.Value] = []
        for value in lstm.given:
            own = value
            if len(lstm.orders) > 1:
                sizes = [1] * len(lstm.orders)
                made = make_split(graph_of(self.node), value, 0, sizes, self._name("Split"))
                for number, output in enumerate(made.outputs):
                    output.name = f"{made.name}_out_{number}"
                self.nodes.append(made)
                own = made.outputs[index]
            apart = self._reshape(own, (1, lstm.batch, lstm.hidden, 1))
            states.append(self._op("Transpose", apart, perm=(1, 2, 3, 0)))
        return (states[0], states[1]) if states else None

    def _step(
        self, direction: int, given: Mapping[str, ir.Value], before: tuple[ir.Value, ir.Value] | None
    ) -> tuple[ir.Value, ir.Value]:
        """Hidden state and cell after a step, from what the input adds to each gate and those ``before``."""
        hidden = None if before is None else before[0]
        opened = self._gate(direction, "input", given, hidden)
        cell = self._op("Mul", opened, self._gate(direction, "cell", given, hidden))
        if before is not None:
            kept = self._op("Mul", self._gate(direction, "forget", given, hidden), before[1])
            cell = self._op("Add", kept, cell)
        shown = self._gate(direction, "output", given, hidden)
        return self._op("Mul", shown, self._op("Tanh", cell)), cell

    def _gate(self, direction: int, gate: str, given: Mapping[str, ir.Value], hidden: ir.Value | None) -> ir.Value:
        total = given[gate]
        if hidden is not None:
            own = self._product("fcn", hidden, self.lstm.recurrences, direction, gate, recurrent=True)
            total = self._op("Add", own, total)
        elif self.lstm.biases is not None:
            start, end = self.lstm.bias_rows(direction, gate, recurrent=True)
            alone = self._array(self.lstm.biases).reshape(-1)[start:end].reshape(1, -1, 1, 1)
            name = f"{self.lstm.biases.name}_{start}_{end}_broadcast"
            total = self._op("Add", total, self._constant(name, np.broadcast_to(alone, self._state_shape)))
        return self._op("Tanh" if gate == "cell" else "Sigmoid", total)

    @property
    def _state_shape(self) -> tuple[int, ...]:
        return (self.lstm.batch, self.lstm.hidden, 1, 1)

    def results(self, runs: Sequence[_Run]) -> dict[ir.Value, ir.Value]:
        """What replaces the outputs of the node that are used: all hidden states, the last ones, the last cells."""
        found = {}
        steps = self._joined_steps(runs)
        for index, output in enumerate(self.node.outputs):
            if not output.uses() and not output.is_graph_output():
                continue
            if index == 0:
                found[output] = self._all_states(steps, len(runs))
            else:
                found[output] = self._last_states([run.last[index - 1] for run in runs], is_cell=index > 1)
        return found

    def _joined_steps(self, runs: Sequence[_Run]) -> Sequence[ir.Value]:
        """Hidden states of all directions per step, shape (batch, hidden, 1, directions); made though not read."""
        joined = list(runs[0].hidden)
        if len(runs) > 1:
            shape = (*self._state_shape[:3], len(runs))
            pairs = [[run.hidden[step] for run in runs] for step in range(self.lstm.steps)]
            joined = [self._op("Concat", *pair, shape=shape, axis=3) for pair in reversed(pairs)][::-1]
        return joined

    def _all_states(self, joined: Sequence[ir.Value], directions: int) -> ir.Value:
        """Shape (steps, directions, batch, hidden)."""
        lstm = self.lstm
        shape = (lstm.steps * lstm.batch, lstm.hidden, 1, directions)
        whole = joined[0] if lstm.steps == 1 else self._op("Concat", *joined, shape=shape, axis=0)
        turned = self._op("Transpose", whole, shape=(shape[0], shape[3], 1, shape[1]), perm=(0, 3, 2, 1))
        shape = (lstm.steps, directions, lstm.batch, lstm.hidden)
        if lstm.batch == 1:
            return turned
        apart = self._reshape(turned, (lstm.steps, lstm.batch, directions, lstm.hidden))
        return self._op("Transpose", apart, shape=shape, perm=(0, 2, 1, 3))

    def _last_states(self, states: Sequence[ir.Value], *, is_cell: bool) -> ir.Value:
        """Shape (directions, batch, hidden); a number is left out where cells, unlike hidden states, are not turned."""
        lstm, count = self.lstm, len(states)
        joined = (count * lstm.batch, lstm.hidden, 1, 1)
        whole = states[0] if count == 1 else self._op("Concat", *states, shape=joined, axis=0)
        if is_cell:
            self._left_out += 1
        else:
            turned = (joined[0], 1, lstm.hidden, 1)
            whole = self._op("Transpose", whole, shape=turned, perm=(0, 2, 1, 3))
        return self._reshape(whole, (count, lstm.batch, lstm.hidden))

    def _name(self, op_type: str) -> str:
        """``<kind>_<node>_<number>``; functions keep their capital letter, as in the original's files."""
        kind = op_type if op_type in ("Sigmoid", "Tanh") else op_type.lower()
        return f"{kind}_{self.node.name}_{len(self.nodes) + self._left_out}"

    def _op(
        self,
        op_type: str,
        *inputs: ir.Value | None,
        shape: Sequence[int] = (),
        kind: str = "",
        **attributes: Any,
    ) -> ir.Value:
        name = self._name(kind or op_type)
        like, shape = self.node.inputs[0], shape or self._state_shape
        made = make_node(
            op_type, inputs, name=name, output=f"{name}_out", like=like, shape=shape, attributes=attributes
        )
        self.nodes.append(made)
        return made.outputs[0]

    def _reshape(self, value: ir.Value | None, shape: Sequence[int]) -> ir.Value:
        target = add_initializer(graph_of(self.node), f"{self._name('Reshape')}_shape", np.asarray(shape, np.int64))
        return self._op("Reshape", value, target, shape=shape)

    def _product(
        self,
        kind: str,
        x: ir.Value,
        weights: ir.Value,
        direction: int,
        gate: str,
        *,
        recurrent: bool,
        shape: Sequence[int] = (),
    ) -> ir.Value:
        """A 1x1 convolution with the rows of ``weights`` that are those of ``gate``, and their bias."""
        inputs = [x, self._rows(weights, self.lstm.kernel_rows(direction, gate), (self.lstm.hidden, -1, 1, 1))]
        if self.lstm.biases is not None:
            rows = self.lstm.bias_rows(direction, gate, recurrent=recurrent)
            inputs.append(self._rows(self.lstm.biases, rows, (self.lstm.hidden,)))
        geometry = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], "group": 1}
        return self._op("Conv", *inputs, shape=shape, kind=kind, **geometry)

    def _rows(self, value: ir.Value, rows: tuple[int, int], shape: Sequence[int]) -> ir.Value:
        """The constant ``<value>_<start>_<end>``: rows of all directions counted through."""
        array, (start, end) = self._array(value), rows
        flat = array.reshape(-1, array.shape[-1]) if value is not self.lstm.biases else array.reshape(-1)
        return self._constant(f"{value.name}_{start}_{end}", flat[start:end].reshape(shape))

    @staticmethod
    def _array(value: ir.Value) -> Array:
        array = initializer_of(value)
        if array is None:
            raise ValueError(f"{value.name} is not constant")
        return array

    def _constant(self, name: str, array: Array) -> ir.Value:
        """The initializer ``name`` of this cell, made once."""
        if name not in self._constants:
            self._constants[name] = add_initializer(graph_of(self.node), name, np.ascontiguousarray(array))
        return self._constants[name]

    def _split(self, value: ir.Value) -> Sequence[ir.Value]:
        """``value`` per step."""
        if self.lstm.steps == 1:
            return [value]
        sizes = [1] * self.lstm.steps
        made = make_split(graph_of(self.node), value, 3, sizes, self._name("Split"))
        for index, output in enumerate(made.outputs):
            output.name = f"{made.name}_out_{index}"
        self.nodes.append(made)
        return made.outputs


def _read(node: ir.Node) -> _Lstm | None:
    """The cell that ``node`` is; ``None`` where it is none that can be unrolled."""
    shape = static_shape(node.inputs[0])
    given = (*node.inputs, None, None, None)[1:4]
    weight, recurrence, bias = (initializer_of(value) for value in given)
    weights, recurrences, biases = given
    if shape is None or weight is None or recurrence is None or (biases is not None and bias is None):
        return None
    if weights is None or recurrences is None or weight.dtype != np.float32:
        return None
    orders = DIRECTIONS[str(attribute(node, "direction", "forward"))]
    states = _given_states(node)
    if states is None or not 1 <= shape[0] <= MAX_STEPS:
        return None
    plain = {"layout": 0, "input_forget": 0, "clip": 0.0, "hidden_size": recurrence.shape[2]}
    if any(attribute(node, name, value) != value for name, value in plain.items()):
        return None
    functions = _ACTIVATIONS * len(orders)
    if tuple(attribute(node, "activations", functions)) != functions:
        return None
    return _Lstm(
        weights=weights,
        recurrences=recurrences,
        biases=biases,
        orders=orders,
        steps=shape[0],
        batch=shape[1],
        features=shape[2],
        hidden=int(recurrence.shape[2]),
        given=states,
    )


_ACTIVATIONS = ("Sigmoid", "Tanh", "Tanh")


def _given_states(node: ir.Node) -> tuple[ir.Value, ...] | None:
    """Hidden state and cell before the first step, none of zeros; ``None`` of a form that is not unrolled.

    Such are lengths, peepholes, and one state alone.
    """
    lengths, hidden, cell, peepholes = (*node.inputs[4:], None, None, None, None)[:4]
    states = [value for value in (hidden, cell) if value is not None]
    arrays = [initializer_of(value) for value in states]
    if lengths is not None or peepholes is not None:
        return None
    if all(array is not None and not array.any() for array in arrays):
        return ()
    return tuple(states) if len(states) == len(("hidden", "cell")) else None
