"""Lowering of standard operators that move data, on integers and on floats.

Every ``lower_*`` appends the instructions of one node and raises :class:`NotLowered` where the machine has none for its
types, shapes or parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from engine.ir import attribute
from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.movement import concat, extract, transpose
from engine.simulate.program import Assembler, Operand, Tensor

Results = list[Tensor]
StandardLowering = Callable[[ir.Node, Sequence[Operand], Assembler], Results]
"""Appends the instructions of a standard node; its results. It raises NotLowered where the machine has none for it."""


def _activation(given: Sequence[Operand]) -> Tensor:
    """The first input, which is computed."""
    x = given[0]
    if not isinstance(x, Tensor):
        raise NotLowered("its first input is a constant")
    return x


def lower_transpose(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    """Transpose of up to four dimensions."""
    x = _activation(given)
    return [transpose(x, attribute(node, "perm") or tuple(reversed(range(len(x.shape)))), program)]


def lower_reshape(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    """Reshape to a constant shape: the same memory."""
    x, target = _activation(given), given[1]
    if not isinstance(target, np.ndarray):
        raise NotLowered("its shape is computed")
    keeps_zero = not attribute(node, "allowzero", 0)
    shape = [x.shape[axis] if dim == 0 and keeps_zero else int(dim) for axis, dim in enumerate(target)]
    return [x.shaped(*np.empty(x.shape, np.bool_).reshape(shape).shape)]


def lower_flatten(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    """Flatten: the same memory as a matrix."""
    x = _activation(given)
    axis = attribute(node, "axis", 1)
    axis = axis + len(x.shape) if axis < 0 else axis
    return [x.shaped(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))]


def lower_identity(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    """Identity: the same tensor."""
    return [_activation(given)]


def lower_concat(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    """Concat; constants among the operands lie in the arena."""
    tensors = [program.constant_operand(x) if isinstance(x, np.ndarray) else x for x in given]
    return [concat([x for x in tensors if x is not None], attribute(node, "axis"), program)]


def lower_slice(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    """Slice with constant bounds and positive steps."""
    x, bounds = _activation(given), list(given[1:])
    if len(bounds) < 2 or not all(isinstance(b, np.ndarray) for b in bounds if b is not None):
        raise NotLowered("its bounds are computed, or attributes")
    starts, ends = (np.asarray(bound).tolist() for bound in bounds[:2])
    axes, steps = (np.asarray(bound).tolist() if bound is not None else None for bound in (*bounds[2:], None, None)[:2])
    ranges = [range(dim) for dim in x.shape]
    for k, axis in enumerate(axes if axes is not None else range(len(starts))):
        ranges[axis] = ranges[axis][slice(starts[k], ends[k], 1 if steps is None else steps[k])]
    if not all(ranges):
        raise NotLowered("nothing is left")
    return [extract(x, [r.start for r in ranges], [len(r) for r in ranges], [r.step for r in ranges], program)]


def lower_gather(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    """Gather of one element, or of constant indices that go on evenly."""
    x, indices, axis = _activation(given), given[1], attribute(node, "axis", 0)
    if not isinstance(indices, np.ndarray):
        raise NotLowered("its indices are computed")
    axis = axis + len(x.shape) if axis < 0 else axis
    if np.any(indices < -x.shape[axis]) or np.any(indices >= x.shape[axis]):
        raise NotLowered("an index lies outside")
    wanted = np.where(indices < 0, indices + x.shape[axis], indices).ravel()
    step = int(wanted[1] - wanted[0]) if wanted.size > 1 else 1
    if not wanted.size or step < 1 or np.any(np.diff(wanted) != step):
        raise NotLowered("its indices do not go on evenly")
    starts, steps, shape = [0] * len(x.shape), [1] * len(x.shape), list(x.shape)
    starts[axis], steps[axis], shape[axis] = int(wanted[0]), step, wanted.size
    result = extract(x, starts, shape, steps, program)
    return [result.shaped(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])]


def lower_split(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    """Split into parts of constant sizes."""
    x, axis = _activation(given), attribute(node, "axis", 0)
    if len(given) > 1 and not isinstance(given[1], np.ndarray):
        raise NotLowered("its sizes are computed")
    given_sizes = given[1] if len(given) > 1 else attribute(node, "split")
    share = math.ceil(x.shape[axis] / len(node.outputs))
    last = x.shape[axis] - share * (len(node.outputs) - 1)
    sizes = [share] * (len(node.outputs) - 1) + [last] if given_sizes is None else np.asarray(given_sizes).tolist()
    if min(sizes) < 1:
        raise NotLowered("a part is empty")
    results, start = [], 0
    for size in sizes:
        shape, starts = list(x.shape), [0] * len(x.shape)
        shape[axis], starts[axis] = size, start
        results.append(extract(x, starts, shape, [1] * len(shape), program))
        start += size
    return results
