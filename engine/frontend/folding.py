"""Constants that are computed, within a budget: a few lines of a model can describe more than memory holds."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir as ir
from onnxscript.optimizer import fold_constants

from engine.errors import UnsupportedError
from engine.limits import beyond, limit

_GROWING = frozenset({"ConstantOfShape", "Expand", "OneHot", "Pad", "Range", "Resize", "Tile", "Upsample"})
"""Operators whose values, and not whose shapes, say how large their result is."""


class FoldingBudget:
    """What the computation of constants in one model may cost.

    Args:
        model: its own initializers may be computed with once more, whatever they take.
        largest: elements of the largest constant that is computed.
    """

    def __init__(self, model: ir.Model, largest: int) -> None:
        own = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value)
        self._left = limit("FOLDED_BYTES") + own
        self._largest = largest
        self.refused = ""
        """Name of the first node that the budget did not suffice for."""

    def affords(self, node: ir.Node) -> bool:
        """Whether the results of ``node`` may be computed; what they take is subtracted."""
        if self.refused:
            return False
        total = 0
        for value in node.outputs:
            shape = None if value.shape is None else value.shape.numpy() if value.shape.is_static() else None
            if shape is None:
                if node.op_type in _GROWING:
                    return False
                continue
            if prod(shape) > self._largest:
                return False
            total += int(prod(shape) * (4 if value.dtype is None else value.dtype.itemsize))
        if total > self._left:
            self.refused = str(node.name or node.outputs[0].name)
            return False
        self._left -= total
        return True


def folded(model: ir.Model, largest: int) -> bool:
    """Compute all that is constant in ``model``, in place; whether something was.

    Args:
        model: shapes that become known on the way are completed; NaN and infinite values are results like any other.
        largest: elements of the largest constant that is computed; nodes of larger ones stay.

    Raises:
        UnsupportedError: all constants together take more than the bound ``FOLDED_BYTES``, or one cannot be computed.
    """
    budget = FoldingBudget(model, largest)
    try:
        with np.errstate(all="ignore"):
            result = fold_constants(
                model,
                onnx_shape_inference=True,
                input_size_limit=largest,
                output_size_limit=largest,
                should_fold=budget.affords,
            )
    except RuntimeError as error:  # of the library, for operators that it has rules of its own for
        raise UnsupportedError(f"the constants of the model cannot be computed: {error}") from error
    if budget.refused:
        raise UnsupportedError(f"node {budget.refused!r}: its result and other constants take {beyond('FOLDED_BYTES')}")
    return bool(result.modified)
