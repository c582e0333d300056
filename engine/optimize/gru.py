"""``GRU`` over a short sequence, unrolled into dense layers and element-wise operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.ir import MARK_STATE, attribute, static_shape
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
from engine.optimize.recurrent import MAX_STEPS

UPDATE, RESET, NEW = range(3)
"""Gates in the order of ONNX's weights."""

_ACTIVATIONS = ("Sigmoid", "Tanh")
_DIRECTIONS = MappingProxyType(
    {"forward": (("", False),), "reverse": (("", True),), "bidirectional": (("_0", False), ("_1", True))}
)
"""What names say of each direction, and whether it begins with the last step."""


@dataclass(frozen=True)
class _Gru:
    """A direction of a ``GRU``.

    Attributes:
        label: of this direction in names; empty where there is one alone.
        is_backward: whether it begins with the last step.
        weight, recurrence: of all gates, float32, shape (3 * hidden, features) and (3 * hidden, hidden).
        bias: of the input's gates, then of the hidden state's, float32, shape (6 * hidden,); zeros where there is none.
        names: of the three in the source; ``<node>_zeros`` of a bias that is not there.
        steps, batch, features, hidden: sizes.
        resets_product: whether the reset gate is applied to the product with the hidden state, not to the state.
        given: the states of all directions before the first step, of shape (directions, batch, hidden); ``None`` of
            zeros.
    """

    label: str
    is_backward: bool
    weight: Array
    recurrence: Array
    bias: Array
    names: tuple[str, ...]
    steps: int
    batch: int
    features: int
    hidden: int
    resets_product: bool
    given: ir.Value | None


class UnrollGru(NodePass):
    """A ``GRU`` of constant weights becomes its steps, nodes ``<node><number>`` in the order they are made.

    Numbers are counted through all of a network (three of three asked with several).
    The sequence is split; every step has a ``Gemm`` per gate of its input and one of the hidden state. The first step
    knows the state: products with it are left out and its numbers stay free. Sums with constants in a row are one, with
    the first one's name. ``crnn_gru`` on two marches and ``min_gru``. Of two directions the second is unrolled behind
    the first, from the last step on, and both are joined (three drawn networks, ten asked on two marches). Where the
    state is reset and not the product with it (``linear_before_reset`` 0), that has the same numbers, and the first
    step multiplies zeros (one drawn network, three asked). A state that is given, an input of the network too, is what
    the first step reads, of two directions its parts (seven asked on two marches). The last state has the name that it
    has in the network, read or not. Other forms (lengths, other activations, long sequences) stay.
    """

    op_types = frozenset({"GRU"})

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        self._taken = 0
        return super().call(model)

    def remains(self, node: ir.Node) -> bool:
        """One that can be unrolled."""
        return bool(_read(node))

    def rewrite(self, node: ir.Node) -> bool:
        cells = _read(node)
        if not cells:
            return False
        unrolled = _Unrolled(node, self._taken)
        begins = unrolled.begins(cells)
        directions = [unrolled.direction(cell, begin) for cell, begin in zip(cells, begins, strict=True)]
        results = unrolled.results(directions)
        substitute_outputs(node, unrolled.nodes, results)
        if len(cells) == 1 and directions[0].last not in results.values():
            directions[0].last.name = node.metadata_props.get(MARK_STATE, directions[0].last.name)
        self._taken = unrolled.taken
        return True


@dataclass(frozen=True)
class _States:
    """What a direction gives.

    Attributes:
        last: its last hidden state.
        all: those of all steps, in their order, of shape (steps, 1, batch, hidden); ``None`` where nothing reads them.
    """

    last: ir.Value
    all: ir.Value | None


class _Unrolled:
    """Appends the nodes of an unrolled cell; states have the shape (1, batch, hidden).

    Args:
        node: the cell.
        taken: how many numbers other cells of the network have taken.
    """

    gru: _Gru

    def __init__(self, node: ir.Node, taken: int) -> None:
        self.node = node
        self.nodes: list[ir.Node] = []
        self.taken = taken
        self._constants: dict[str, ir.Value] = {}

    def begins(self, cells: Sequence[_Gru]) -> Sequence[ir.Value | None]:
        """The state of each direction before its first step; ``None`` of zeros."""
        given = cells[0].given
        if given is None or len(cells) == 1:
            return [given] * len(cells)
        return self._parts(given, len(cells))

    def direction(self, gru: _Gru, begin: ir.Value | None) -> _States:
        """The hidden states of ``gru``, which has the state ``begin`` before its first step."""
        self.gru = gru
        found: list[tuple[ir.Value, ir.Value]] = []
        steps = self._split()
        for x in reversed(steps) if gru.is_backward else steps:
            state = self._step(x, found[-1][0] if found else begin)
            shape = (1, 1, gru.batch, gru.hidden)
            found.append((state, self._reshape(self._take(), state, shape)))
        apart = [each for _, each in (reversed(found) if gru.is_backward else found)]
        whole = (gru.steps, 1, gru.batch, gru.hidden)
        return _States(found[-1][0], self._joined(apart, self.node.outputs[0], whole, axis=0))

    def results(self, directions: Sequence[_States]) -> dict[ir.Value, ir.Value]:
        """What replaces the outputs of the node that are used: all hidden states, the last ones."""
        both, last = [each.all for each in directions if each.all is not None], [each.last for each in directions]
        results = [both[0] if both else None, last[0]]
        if len(directions) > 1:
            sizes = (len(directions), self.gru.batch, self.gru.hidden)
            results[0] = self._joined(both, self.node.outputs[0], (self.gru.steps, *sizes), axis=1)
            results[1] = self._joined(last, self.node.outputs[-1], sizes, axis=0)
        found = dict(zip(self.node.outputs, results, strict=False))
        return {output: each for output, each in found.items() if each is not None and _is_used(output)}

    def _joined(self, values: Sequence[ir.Value], used: ir.Value, shape: Sequence[int], axis: int) -> ir.Value | None:
        """``values`` beside one another; where ``used`` is not, nothing, and a number is left out."""
        if _is_used(used):
            return self._op("Concat", *values, shape=shape, axis=axis)
        self._skip(1)
        return None

    def _step(self, x: ir.Value, before: ir.Value | None) -> ir.Value:
        """Hidden state after a step of input ``x``, from that ``before``."""
        update = self._gate(x, before, UPDATE)
        reset = self._gate(x, before, RESET)
        own = self._product(x, self.gru.weight, 0, NEW)
        if self.gru.resets_product:
            total = self._add_bias(self._reset(before, reset, own), [NEW])
        else:
            state = self._op("Mul", reset, before or self._zeros())
            added = self._product(state, self.gru.recurrence, 1, NEW)
            total = self._add_bias(self._op("Add", own, added), [NEW + 3, NEW])
        new = self._op("Tanh", total)
        mixed = self._op("Mul", new, update)
        kept = self._op("Mul", before or self._zeros(), update)
        return self._op("Add", self._op("Sub", new, mixed), kept)

    def _zeros(self) -> ir.Value:
        """The state before the first step."""
        name = f"{self.node.name}_initial{self.gru.label}"
        if name not in self._constants:
            zeros = np.zeros((1, self.gru.batch, self.gru.hidden), np.float32)
            self._constants[name] = add_initializer(graph_of(self.node), name, zeros)
        return self._constants[name]

    def _gate(self, x: ir.Value, before: ir.Value | None, gate: int) -> ir.Value:
        """The sigmoid of what input and state add to ``gate``."""
        total = self._product(x, self.gru.weight, 0, gate)
        if before is None:
            self._skip(2)
        else:
            total = self._op("Add", total, self._product(before, self.gru.recurrence, 1, gate))
        return self._op("Sigmoid", self._add_bias(total, [gate, gate + 3]))

    def _reset(self, before: ir.Value | None, reset: ir.Value, own: ir.Value) -> ir.Value:
        """What input and reset state add to the new state; of a state of zeros only the bias is there."""
        if before is not None:
            added = self._add_bias(self._product(before, self.gru.recurrence, 1, NEW), [NEW + 3])
            return self._op("Add", own, self._op("Mul", reset, added))
        self._skip(2)
        rows = self._bias_rows(NEW + 3)
        alone = add_initializer(graph_of(self.node), f"{self.gru.names[2]}{self.gru.label}_{NEW + 3}", rows)
        return self._op("Add", own, self._op("Mul", reset, alone))

    def _split(self) -> Sequence[ir.Value]:
        """The input of every step."""
        source = self.node.inputs[0]
        if source is None:
            raise ValueError(f"node {self.node.name!r} reads nothing")
        if self.gru.steps == 1:
            self._skip(1)
            return [source]
        return self._parts(source, self.gru.steps)

    def _parts(self, source: ir.Value, count: int) -> Sequence[ir.Value]:
        """The ``count`` parts of ``source`` along its first axis."""
        name = self._take()
        made = make_split(graph_of(self.node), source, 0, [1] * count, name)
        for index, output in enumerate(made.outputs):
            output.name = f"{name}_out{index}"
        self.nodes.append(made)
        return made.outputs

    def _product(self, x: ir.Value, matrix: Array, which: int, gate: int) -> ir.Value:
        """``x`` times the rows of ``matrix`` that are those of ``gate``."""
        name, (batch, hidden), graph = self._take(), (self.gru.batch, self.gru.hidden), graph_of(self.node)
        weight = matrix[gate * hidden : (gate + 1) * hidden].T
        flat = self._reshape(f"{name}_reshape_in", x, (batch, weight.shape[0]))
        data = add_initializer(graph, f"{name}{self.gru.names[which]}{self.gru.label}_{gate}_gemm_data", weight)
        made = self._append("Gemm", f"{name}_gemm", f"{name}_gemm_output", (flat, data), (batch, hidden))
        return self._reshape(f"{name}_reshape_out", made, (1, batch, hidden), f"{name}_out")

    def _add_bias(self, value: ir.Value, rows: Sequence[int]) -> ir.Value:
        """``value`` plus the biases ``rows``: one sum under the first one's name, with the last one's result."""
        names = [self._take() for _ in rows]
        total = np.asarray(np.sum([self._bias_rows(row) for row in rows], axis=0, dtype=np.float32))
        label = f"{self.gru.names[2]}{self.gru.label}_{rows[0]}"
        label = label if len(rows) == 1 else f"{names[0]}{label}_new"
        if label not in self._constants:
            self._constants[label] = add_initializer(graph_of(self.node), label, total)
        added = self._constants[label]
        return self._append("Add", names[0], f"{names[-1]}_out", (value, added), self._shape)

    def _bias_rows(self, row: int) -> Array:
        return self.gru.bias[row * self.gru.hidden : (row + 1) * self.gru.hidden]

    @property
    def _shape(self) -> tuple[int, ...]:
        return (1, self.gru.batch, self.gru.hidden)

    def _take(self) -> str:
        """The name of the next node."""
        self.taken += 1
        return f"{self.node.name}{self.taken - 1}"

    def _skip(self, count: int) -> None:
        """Numbers of nodes that the first step does not need."""
        self.taken += count

    def _op(self, op_type: str, *inputs: ir.Value, shape: Sequence[int] = (), **attributes: Any) -> ir.Value:
        name = self._take()
        return self._append(op_type, name, f"{name}_out", inputs, shape or self._shape, **attributes)

    def _reshape(self, name: str, value: ir.Value, shape: Sequence[int], output: str = "") -> ir.Value:
        target = add_initializer(graph_of(self.node), f"{name}_shape", np.asarray(shape, np.int64))
        return self._append("Reshape", name, output or f"{name}_out", (value, target), shape)

    def _append(
        self, op_type: str, name: str, output: str, inputs: Sequence[ir.Value], shape: Sequence[int], **attributes: Any
    ) -> ir.Value:
        like = self.node.inputs[0]
        self.nodes.append(
            make_node(op_type, inputs, name=name, output=output, like=like, shape=shape, attributes=attributes)
        )
        return self.nodes[-1].outputs[0]


def _is_used(output: ir.Value) -> bool:
    return bool(output.uses()) or output.is_graph_output()


def _read(node: ir.Node) -> tuple[_Gru, ...]:
    """The directions that ``node`` is; none where it is none that can be unrolled."""
    shape = static_shape(node.inputs[0])
    given = (*node.inputs, None, None, None)[1:4]
    weight, recurrence, bias = (initializer_of(value) for value in given)
    if shape is None or weight is None or recurrence is None or (given[2] is not None and bias is None):
        return ()
    lengths, state = (*node.inputs[4:], None, None)[:2]
    if lengths is not None or not 1 <= shape[0] <= MAX_STEPS or weight.dtype != np.float32:
        return ()
    direction = attribute(node, "direction", "forward")
    if direction not in _DIRECTIONS:
        return ()
    plain = {"layout": 0, "clip": 0.0}
    if any(attribute(node, name, value) != value for name, value in plain.items()):
        return ()
    directions = _DIRECTIONS[direction]
    begins_at_zero = state is None or ((array := initializer_of(state)) is not None and not array.any())
    expected = _ACTIVATIONS * len(directions)
    if tuple(attribute(node, "activations", expected)) != expected:
        return ()
    return tuple(
        _Gru(
            label=label,
            is_backward=is_backward,
            weight=weight[index],
            recurrence=recurrence[index],
            bias=np.zeros(6 * recurrence.shape[2], np.float32) if bias is None else bias[index],
            names=tuple(f"{node.name}_zeros" if value is None else str(value.name) for value in given),
            steps=shape[0],
            batch=shape[1],
            features=shape[2],
            hidden=int(recurrence.shape[2]),
            resets_product=bool(attribute(node, "linear_before_reset", 0)),
            given=None if begins_at_zero else state,
        )
        for index, (label, is_backward) in enumerate(directions)
    )
