"""LSTM and GRU of float32 as both simulators compute them: on every CPU the same bits.

The CPU's side of a quantised network has such nodes where a sequence is too long to be unrolled. The bits are those of
the original's runtime, which was asked with 146 nodes (``tests/parity/test_recurrent_nodes.py`` has 42 of them). Nodes
with computed weights, states or lengths, peepholes, clipping or other activations stay with ONNX Runtime, as do those
of more than :data:`MOST_STEPS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.floats.fused import fused
from engine.floats.rational import ONE, logistic_of_cells, parts_of_tanh, tanh_of_cells
from engine.ir import attribute

Floats = NDArray[np.float32]

_BLOCK, _LEAST_WIDTH = 128, 16
"""Products and results of a block of weights, and fewest results of one that has more products instead."""
_LANES = 8
"""Sums of a row's products that run side by side."""
MOST_STEPS = 1 << 16
"""Steps of all directions times the width of the state, beyond which the definition would take seconds."""
GATES: Mapping[str, int] = MappingProxyType({"LSTM": 4, "GRU": 3})
"""By operator type: i, o, f, c and z, r, h."""
_WAYS: Mapping[str, tuple[bool, ...]] = MappingProxyType(
    {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
)
_ACTIVATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh")}
)
_LENGTHS, _STATE, _CELL, _PEEPHOLES = 4, 5, 6, 7
_ELSEWHERE = ("clip", "activation_alpha", "activation_beta", "input_forget", "layout")
"""Attributes that change what is computed."""


@dataclass(frozen=True)
class RecurrentCell:
    """A node's parameters; of each direction, as ONNX orders them.

    Attributes:
        op_type: ``LSTM`` or ``GRU``.
        backwards: of each direction, whether it goes from the last step to the first.
        resets_product: of a GRU, whether the reset gate multiplies the product with the state, not the state
            (``linear_before_reset``).
        weights: of the input, float32 (directions, gates * hidden, inputs).
        recurrence: weights of the state, float32 (directions, gates * hidden, hidden).
        bias: float32 (directions, 2 * gates * hidden), that of the input first.
        state: what it starts with, float32 (directions, rows, hidden).
        cell: the same of an LSTM's cell.
    """

    op_type: str
    backwards: tuple[bool, ...]
    resets_product: bool
    weights: Floats
    recurrence: Floats
    bias: Floats
    state: Floats
    cell: Floats

    @property
    def hidden(self) -> int:
        """Width of the state."""
        return int(self.recurrence.shape[2])

    @property
    def biases(self) -> tuple[Floats, Floats]:
        """Those of the input and of the state, each (directions, gates * hidden)."""
        half = self.bias.shape[1] // 2
        return self.bias[:, :half], self.bias[:, half:]


def cell_of(node: ir.Node, inputs: Sequence[Any]) -> RecurrentCell | None:
    """The parameters of an LSTM or GRU that is computed here; ``None`` for any other node.

    Args:
        node: a standard node.
        inputs: of the node; constants as arrays, the sequence as anything with ``shape`` and ``dtype``, None where one
            is omitted.
    """
    if node.op_type not in GATES or any(attribute(node, name, 0) for name in _ELSEWHERE):
        return None
    x, given = inputs[0], [*inputs[1:], *[None] * (_PEEPHOLES + 1 - len(inputs))]
    constants = all(value is None or isinstance(value, np.ndarray) for value in given)
    if not constants or given[_LENGTHS - 1] is not None or given[_PEEPHOLES - 1] is not None:
        return None
    present = [value for value in (x, *given) if value is not None]
    if len(x.shape) != 3 or 0 in x.shape or any(value.dtype != np.float32 for value in present):
        return None
    backwards = _WAYS.get(str(attribute(node, "direction", "forward")))
    names = tuple(str(name).lower() for name in attribute(node, "activations", ()))
    if backwards is None or (names and names != _ACTIVATIONS[node.op_type] * len(backwards)):
        return None
    return _fitting(node, tuple(x.shape), given, backwards)


def _fitting(
    node: ir.Node, shape: tuple[int, ...], given: Sequence[Any], backwards: tuple[bool, ...]
) -> RecurrentCell | None:
    """The parameters, if their shapes belong together and are not too large."""
    weights, recurrence, bias = given[:3]
    ways, (steps, rows, inputs), gates = len(backwards), shape, GATES[node.op_type]
    if weights is None or recurrence is None or recurrence.ndim != 3:
        return None
    hidden = recurrence.shape[2]
    states = [given[place - 1] for place in (_STATE, _CELL)]
    bias = np.zeros((ways, 2 * gates * hidden), np.float32) if bias is None else bias
    state, cell = (np.zeros((ways, rows, hidden), np.float32) if value is None else value for value in states)
    fits = (
        attribute(node, "hidden_size", hidden) == hidden > 0
        and weights.shape == (ways, gates * hidden, inputs)
        and recurrence.shape == (ways, gates * hidden, hidden)
        and bias.shape == (ways, 2 * gates * hidden)
        and state.shape == cell.shape == (ways, rows, hidden)
    )
    if not fits or ways * steps * hidden > MOST_STEPS:
        return None
    resets = bool(attribute(node, "linear_before_reset", 0))
    return RecurrentCell(node.op_type, backwards, resets, weights, recurrence, bias, state, cell)


def recurred(x: Floats, cell: RecurrentCell) -> list[Floats]:
    """All outputs of the node.

    Products of one row are those of :func:`_products_of_row`. Of several rows a sum begins with 0; one multiply-add,
    rounded once, follows the other; after each block (:func:`block`) they begin from 0 anew, and these sums are added
    up. The products with the state are added to those with the input, then both biases, which are added up first.

    Args:
        x: (steps, rows, inputs).
        cell: parameters.

    Returns:
        Y (steps, directions, rows, hidden), Y_h (directions, rows, hidden) and, of an LSTM, Y_c as Y_h.
    """
    step = _lstm_step if cell.op_type == "LSTM" else _gru_step
    results = np.empty((len(x), len(cell.backwards), x.shape[1], cell.hidden), np.float32)
    state, memory = cell.state.copy(), cell.cell.copy()
    with np.errstate(all="ignore"):
        for way, is_backwards in enumerate(cell.backwards):
            products = products_added(None, x, cell.weights[way])
            for time in range(len(x))[:: -1 if is_backwards else 1]:
                state[way], memory[way] = step(products[time], state[way], memory[way], cell, way)
                results[time, way] = state[way]
    return [results, state] if cell.op_type == "GRU" else [results, state, memory]


def _lstm_step(products: Floats, state: Floats, memory: Floats, cell: RecurrentCell, way: int) -> tuple[Floats, Floats]:
    sums = products_added(products, state, cell.recurrence[way]) + sum(bias[way] for bias in cell.biases)
    enter, leave, keep, new = np.split(sums, 4, axis=1)
    memory = logistic_of_cells(keep) * memory + logistic_of_cells(enter) * tanh_of_cells(new)
    above, below = parts_of_tanh(memory)
    return (logistic_of_cells(leave) * above) / below, memory


def _gru_step(products: Floats, state: Floats, memory: Floats, cell: RecurrentCell, way: int) -> tuple[Floats, Floats]:
    gates = 2 * cell.hidden
    of_input, of_state = (bias[way] for bias in cell.biases)
    weights = cell.recurrence[way]
    sums = products_added(products[:, :gates], state, weights[:gates]) + (of_input + of_state)[:gates]
    update, reset = np.split(logistic_of_cells(sums), 2, axis=1)
    if cell.resets_product:
        product = products_added(np.broadcast_to(of_state[gates:], state.shape), state, weights[gates:])
        new = (reset * product + products[:, gates:]) + of_input[gates:]
    else:
        new = products_added(products[:, gates:], reset * state, weights[gates:]) + (of_input + of_state)[gates:]
    return (ONE - update) * tanh_of_cells(new) + update * state, memory


def products_added(total: Floats | None, x: Floats, weights: Floats) -> Floats:
    """``total`` and the products of ``x`` (..., count) with ``weights`` (results, count)."""
    count = x.shape[-1]
    if x.size == count:
        parts = [_products_of_row(x, weights)]
    else:
        size = block(count, len(weights))
        starts = range(0, count, size)
        parts = [_products(x[..., start : start + size], weights[:, start : start + size]) for start in starts]
    return reduce(np.add, parts if total is None else [total, *parts])


def block(count: int, results: int) -> int:
    """Products of a sum that are added up by themselves: a block of weights has as many of them as fit a cache."""
    wide, long = _BLOCK, _BLOCK
    while results < count and wide > _LEAST_WIDTH and wide // 2 >= results:
        wide, long = wide // 2, long * 2
    return long


def _products(x: Floats, weights: Floats) -> Floats:
    """Sums of products from 0 on, one multiply-add after the other."""
    total = np.zeros((*x.shape[:-1], len(weights)), np.float32)
    for index in range(x.shape[-1]):
        total = fused(x[..., index, None], weights[:, index], total)
    return total


def _products_of_row(x: Floats, weights: Floats) -> Floats:
    """Sums of products in eight sums side by side, products and sums rounded by themselves.

    For four results together the four sums of each half are added one after the other, then both halves. For two that
    are left it is the first and third of each half, then both halves of these, then they and the others. For one that
    is left neighbours are added, then both halves. ONNX Runtime has the same for a row that it does not pack.
    """
    count, results = x.shape[-1], len(weights)
    room = np.zeros((*x.shape[:-1], results, -(-count // _LANES) * _LANES), np.float32)
    np.multiply(x[..., None, :], weights, out=room[..., :count])
    lanes = reduce(np.add, np.moveaxis(room.reshape(*room.shape[:-1], -1, _LANES), -2, 0))
    a, b, c, d = np.moveaxis(lanes.reshape(*lanes.shape[:-1], 2, _LANES // 2), -1, 0)
    sums = _joined(((a + b) + c) + d)
    two, one = slice(results - results % 4, results - results % 2), slice(results - results % 2, results)
    sums[..., two] = (_joined(a + c) + _joined(b + d))[..., two]
    sums[..., one] = _joined((a + b) + (c + d))[..., one]
    return sums


def _joined(halves: Floats) -> Floats:
    return np.asarray(halves[..., 0] + halves[..., 1])
