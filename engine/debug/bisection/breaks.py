"""Where an integer model breaks: the first node whose result is as far from the float model's as the output is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.debug.analysis.metrics import DistanceMeasure, measure
from engine.debug.bisection.integer_error import integer_values
from engine.debug.bisection.tensors import Feed, float_tensors, integer_tensors


@dataclass(frozen=True)
class Break:
    """A node where the integer model leaves the float model.

    Attributes:
        node, op_type: of the float network.
        sqnr: of its result, dB.
        before: of the noisiest tensor that it reads, dB; infinite where none is known.
    """

    node: str
    op_type: str
    sqnr: float
    before: float


def first_break(
    optimized: ir.Model, calibrated: ir.Model, quantized: ir.Model, feed: Feed, floor: float
) -> Break | None:
    """The first node of the graph whose integer result has a lower SQNR than ``floor`` dB; None where none has.

    Args:
        optimized: the float network.
        calibrated: the same with thresholds.
        quantized: its integer form.
        feed: samples as the original_float model takes them.
        floor: dB.
    """
    expected = float_tensors(optimized, feed)
    found = integer_values(calibrated, quantized, integer_tensors(quantized, feed))
    ratios: dict[str, float] = {}
    for node in calibrated.graph:
        for value in node.outputs:
            name = str(value.name)
            if name not in expected or name not in found or expected[name].size != found[name].size:
                continue
            actual, wanted = (np.asarray(array, np.float64).reshape(-1) for array in (found[name], expected[name]))
            ratios[name] = measure(DistanceMeasure.SQNR, actual, wanted)
            if not ratios[name] >= floor:
                names = [str(source.name) for source in node.inputs if source is not None]
                reads = [ratios[each] for each in names if each in ratios]
                return Break(str(node.name), node.op_type, ratios[name], min(reads, default=float("inf")))
    return None
