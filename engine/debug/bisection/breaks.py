"""Where an integer model breaks: the first node whose result is as far from the float model's as the output is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.calibrate.forward.compare import Distance
from engine.calibrate.forward.health import FLOOR_SQNR, IntegerDistance, broken
from engine.debug.analysis.metrics import DistanceMeasure, measure
from engine.debug.bisection.integer_error import integer_values
from engine.debug.bisection.tensors import Feed, float_tensors, integer_tensors
from engine.ops.foreign.composite import PREPROCESS


@dataclass(frozen=True)
class Break:
    """A node where the integer model leaves the float model.

    Attributes:
        node, op_type: of the float network.
        sqnr: of its result, dB; NaN where that holds NaN or infinity.
        before: of the noisiest tensor that it reads, dB; infinite where there is no noise, or none known.
    """

    node: str
    op_type: str
    sqnr: float
    before: float

    def __str__(self) -> str:
        where = f"It breaks at node {self.node} ({self.op_type})"
        if math.isnan(self.sqnr):
            return f"{where}, whose result holds NaN or infinity: look at the data and the weights."
        reads = "" if math.isinf(self.before) else f", that of what it reads {self.before:z.1f} dB"
        noise = f"{where}: the SQNR of its result is {self.sqnr:z.1f} dB{reads}."
        if self.op_type == PREPROCESS:
            return f"{noise} It rounds the input to pixels: are the samples what input_parameters say?"
        return f"{noise} Give it int16 or the CPU in node_info, or see ptqlab bisect and hmct-debugger."


def broken_in_words(distances: Mapping[str, Distance], find: Callable[[], Break | None]) -> tuple[str, ...]:
    """Which outputs of an integer model no longer say what the float model's do, where that begins, and what to do.

    Args:
        distances: of the outputs, by name.
        find: looks for the node; called where an output is broken.

    Returns:
        A sentence each; none where all outputs are within their floors.
    """
    found = {name: said for name, each in distances.items() if (said := broken(each))}
    if not found:
        return ()
    where = find()
    sentences = [f"Output {name} of the integer model is broken: {'; '.join(said)}." for name, said in found.items()]
    if where is not None:
        sentences.append(str(where))
    if any(isinstance(each, IntegerDistance) and each.lost in found.get(name, ()) for name, each in distances.items()):
        sentences.append(
            "Where numbers of different size share one scale, such as boxes and scores behind a Concat, end the "
            "network in front of it (output_nodes), so that each has its own output."
        )
    return tuple(sentences)


def first_break(
    optimized: ir.Model, calibrated: ir.Model, quantized: ir.Model, feed: Feed, floor: float = FLOOR_SQNR
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
