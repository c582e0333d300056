"""What the float model gives for calibration samples, kept from the pass that collects statistics."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import shape_of

OUTPUTS_LIMIT = 256 << 20
"""Bytes of outputs that are kept: those of the first samples that fit."""


class FloatOutputs:
    """The outputs of the float model for the first calibration samples, as far as a pass over them has shown them.

    The pass computes most of what leads to them, so that a comparison with the float model needs no pass of its own.
    """

    def __init__(self) -> None:
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._most = 0
        self._samples: dict[int, dict[str, NDArray[np.float32]]] = {}

    def wanted(self, model: ir.Model) -> tuple[str, ...]:
        """The outputs of ``model`` that a pass is to show.

        None where not all are float32 with a first dimension, or those of one sample exceed :data:`OUTPUTS_LIMIT`.
        """
        values = list(model.graph.outputs)
        if any(value.dtype != ir.DataType.FLOAT or not shape_of(value) or value.producer() is None for value in values):
            return ()
        shapes = {str(value.name): shape_of(value) for value in values}
        self._most = OUTPUTS_LIMIT // max(1, 4 * sum(map(prod, shapes.values())))
        self._shapes = shapes if self._most else {}
        return tuple(self._shapes)

    def see(self, first: int, name: str, values: NDArray[np.float32]) -> None:
        """Keep ``values`` of the output ``name`` for samples from number ``first`` on; other tensors are let pass."""
        if name not in self._shapes:
            return
        rows = self._shapes[name][0]
        for index in range(first, min(first + len(values) // rows, self._most)):
            start = (index - first) * rows
            self._samples.setdefault(index, {})[name] = values[start : start + rows].copy()

    def of(self, index: int) -> Mapping[str, NDArray[np.float32]] | None:
        """The outputs for sample ``index`` by name; None where they are not here."""
        found = self._samples.get(index, {})
        return found if self._shapes and found.keys() == self._shapes.keys() else None
