"""Lowering of LSTM and GRU that stay on the CPU: products with the input, then the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.floats.recurrent import GATES, RecurrentCell, block, cell_of
from engine.simulate.kernels import operations, tiles
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.floats import SMALLEST
from engine.simulate.lowering.movement import concat
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
    at_once = block(inputs, gates * hidden)
    products = _multiplied(x.shaped(steps * rows, inputs), cell.weights.reshape(-1, inputs), at_once, program)
    y = program.tensor((steps * ways * rows * hidden + ways * rows * hidden,), np.float32)
    first = gates if cell.op_type == "LSTM" else 2
    width = tiles.CHAIN_WIDTH if rows == 1 else tiles.RECURRENT_WIDTH
    parts = cell.recurrence[:, : first * hidden], cell.recurrence[:, first * hidden :]
    panels = [_packed(part, width) for part in parts]
    packed = np.concatenate([panel.reshape(ways, -1) for panel in panels], axis=1)
    wide, rest = (panel.shape[1] * width for panel in panels)
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


def _multiplied(x: Tensor, weights: Floats, at_once: int, program: Assembler) -> Tensor:
    """:func:`engine.floats.recurrent.products_added` of several rows (rows, count) with weights (results, count).

    ``at_once`` products of a sum by themselves: those of one direction, whose weights stand by themselves there.
    """
    rows, (results, count) = x.shape[0], weights.shape
    y = program.tensor((rows, results), np.float32)
    panels = _packed(weights[None], tiles.FLOAT_WIDTH)[0]
    # The last panel ends with the last result: its tile overlaps the one before.
    panels[-1] = weights[max(results - tiles.FLOAT_WIDTH, 0) :].T if results >= tiles.FLOAT_WIDTH else panels[-1]
    program.emit(
        InstructionKind.FLOAT_PRODUCT,
        {"x": x, "y": y},
        units=len(panels),
        scratch=tiles.FLOAT_ROWS * tiles.FLOAT_WIDTH * 4,
        **{"in_h": rows, "out_c": results, "taps": count},
        count=at_once,
        low=SMALLEST,
        tap_offsets=program.address(np.arange(count) * panels.strides[1]),
        weights=program.address(panels),
        params=program.address(np.full(tiles.FLOAT_ROWS, -0.0, np.float32)),
    )
    return y


def _last(backwards: Sequence[bool], steps: int) -> list[int]:
    """Where the last step of each direction is in Y, in rows of one direction."""
    return [(0 if back else steps - 1) * len(backwards) + way for way, back in enumerate(backwards)]


def _operation(cell: RecurrentCell) -> int:
    if cell.op_type == "LSTM":
        return operations.LSTM
    return operations.GRU_OF_PRODUCT if cell.resets_product else operations.GRU_OF_STATE


def _packed(weights: Floats, width: int) -> Floats:
    """Weights (directions, results, count) as panels (directions, panels, count, width), zeros where nothing is."""
    ways, results, count = weights.shape
    panels = -(-results // width)
    padded = np.zeros((ways, panels * width, count), np.float32)
    padded[:, :results] = weights
    return np.ascontiguousarray(padded.reshape(ways, panels, width, count).swapaxes(2, 3))


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
