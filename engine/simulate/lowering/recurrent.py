"""Lowering of LSTM and GRU that stay on the CPU: products with the input as one convolution, then the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.floats.convolution import RowWindow
from engine.floats.recurrent import GATES, RecurrentCell, block, cell_of
from engine.simulate.kernels import operations
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.tiles import RECURRENT_WIDTH as WIDTH
from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.floats import convolve
from engine.simulate.lowering.movement import concat, transpose
from engine.simulate.program import Assembler, Operand, Tensor

Floats = NDArray[np.float32]


def lower_recurrent(node: ir.Node, given: Sequence[Operand], program: Assembler) -> list[Tensor]:
    """LSTM or GRU: the outputs that the node has."""
    x, cell = given[0], cell_of(node, given)
    if not isinstance(x, Tensor) or cell is None:
        raise NotLowered("its weights are computed, it is too long, or it is of another form than usual")
    steps, rows, inputs = x.shape
    if steps * rows == 1:
        raise NotLowered("it has one step, whose product with the input has another order of sums")
    ways, hidden, gates = len(cell.backwards), cell.hidden, GATES[cell.op_type]
    columns = transpose(x.shaped(steps * rows, inputs), (1, 0), program).shaped(1, inputs, steps * rows)
    weights = cell.weights.reshape(ways * gates * hidden, inputs, 1)
    products = convolve(columns, weights, None, RowWindow(0, 0, 1, 1, 1), block(inputs, gates * hidden), program)
    products = transpose(products.shaped(ways * gates * hidden, steps * rows), (1, 0), program)
    y = program.tensor((steps * ways * rows * hidden + ways * rows * hidden,), np.float32)
    first = gates if cell.op_type == "LSTM" else 2
    panels = [_packed(cell.recurrence[:, : first * hidden]), _packed(cell.recurrence[:, first * hidden :])]
    packed = np.concatenate([panel.reshape(ways, -1) for panel in panels], axis=1)
    wide, rest = (panel.shape[1] * WIDTH for panel in panels)
    biases = _biases(cell)
    program.emit(
        InstructionKind.RECURRENT,
        {"x": products, "y": y},
        units=ways * rows,
        scratch=(wide + rest + 3 * hidden) * 4,
        **{"in_h": steps, "in_w": rows, "out_c": hidden, "groups": ways, "panels": gates, "wide": wide, "splits": rest},
        left=int(cell.backwards[0]),
        operation=_operation(cell),
        count=block(hidden, hidden),
        weights=program.address(packed),
        group_weights=packed.strides[0],
        params=program.address(biases),
        params_pitch=biases.strides[0],
        table=program.address(np.stack([cell.state, cell.cell], axis=2)),
    )
    size = rows * hidden * 4
    ends = [replace(y, shape=(1, rows, hidden), start=y.start + place * size) for place in _last(cell.backwards, steps)]
    results = [y.shaped(steps, ways, rows, hidden)]
    if len(node.outputs) > 1:
        results.append(ends[0] if ways == 1 else concat(ends, 0, program))
    if len(node.outputs) > 2:  # Y, Y_h and Y_c
        results.append(replace(y, shape=(ways, rows, hidden), start=y.start + steps * ways * size))
    return results


def _last(backwards: Sequence[bool], steps: int) -> list[int]:
    """Where the last step of each direction is in Y, in rows of one direction."""
    return [(0 if back else steps - 1) * len(backwards) + way for way, back in enumerate(backwards)]


def _operation(cell: RecurrentCell) -> int:
    if cell.op_type == "LSTM":
        return operations.LSTM
    return operations.GRU_OF_PRODUCT if cell.resets_product else operations.GRU_OF_STATE


def _packed(weights: Floats) -> Floats:
    """Weights (directions, results, count) as panels (directions, panels, count, columns), zeros where nothing is."""
    ways, results, count = weights.shape
    panels = -(-results // WIDTH)
    padded = np.zeros((ways, panels * WIDTH, count), np.float32)
    padded[:, :results] = weights
    return np.ascontiguousarray(padded.reshape(ways, panels, WIDTH, count).swapaxes(2, 3))


def _biases(cell: RecurrentCell) -> Floats:
    """Per direction those of all gates, then that which a GRU's product begins with (zeros where it has none)."""
    of_input, of_state = cell.biases
    both, third = of_input + of_state, np.zeros((len(of_input), cell.hidden), np.float32)
    if cell.op_type == "GRU" and cell.resets_product:
        gates = 2 * cell.hidden
        both, third = np.concatenate([both[:, :gates], of_input[:, gates:]], axis=1), of_state[:, gates:]
    return np.concatenate([both, third], axis=1)


RECURRENT_LOWERINGS: Mapping[str, Callable[[ir.Node, Sequence[Operand], Assembler], list[Any]]] = MappingProxyType(
    dict.fromkeys(GATES, lower_recurrent)
)
"""By type of a standard node that has several results."""
