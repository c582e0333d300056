"""Where an integer model breaks: the first node whose result is as far from the float model's as the output is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.data.samples import evenly_spread
from engine.calibrate.data.sources import CalibrationData
from engine.debug.analysis.metrics import DistanceMeasure, measure
from engine.debug.bisection.integer_error import integer_values
from engine.debug.bisection.tensors import Feed, float_tensors, integer_tensors
from engine.floats.compare import Distance
from engine.floats.health import FLOOR_SQNR, IntegerDistance, broken
from engine.ir import MARK_ON, before_calibration, constant_of, static_shape
from engine.ops.foreign.composite import PREPROCESS
from engine.terms import Device


@dataclass(frozen=True)
class Break:
    """A node where the integer model leaves the float model.

    Attributes:
        node, op_type: of the float network.
        sqnr: of its result, of a Concat's the least of its parts, dB; NaN where it holds NaN or infinity.
        before: of the noisiest tensor that it reads, dB; infinite where there is no noise, or none known.
        remedy: what to do, where it is known for this network.
        samples: how many of those looked at break here first.
        of: how many were looked at.
        others: nodes where the other samples break first, with how many.
    """

    node: str
    op_type: str
    sqnr: float
    before: float
    remedy: str = "Give it int16 or the CPU in node_info, or see ptqlab bisect and hmct-debugger."
    samples: int = 1
    of: int = 1
    others: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        where = f"It breaks at node {self.node} ({self.op_type})"
        if self.of > 1:
            besides = ", ".join(f"at {node} in {count}" for node, count in self.others)
            where += f" in {self.samples} of {self.of} samples" + (f" ({besides})" if besides else "")
        if math.isnan(self.sqnr):
            said = "look at the data and the weights." if self.remedy == Break.remedy else self.remedy
            return f"{where}, whose result holds NaN or infinity: {said}"
        reads = "" if math.isinf(self.before) else f", that of what it reads {self.before:z.1f} dB"
        result = "the worst part of its result" if self.op_type == _JOINS else "its result"
        noise = f"{where}: the SQNR of {result} is {self.sqnr:z.1f} dB{reads}."
        if self.op_type == PREPROCESS:
            return f"{noise} It rounds the input to pixels: are the samples what input_parameters say?"
        return f"{noise} {self.remedy}"


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


def usual_break(optimized: ir.Model, calibrated: ir.Model, quantized: ir.Model, data: CalibrationData) -> Break | None:
    """Where most of the samples that break break first; None where none of those looked at does.

    Evenly spread samples are looked at: eight of a small network, three of a large one.

    Args:
        optimized, calibrated, quantized: as of :func:`first_break`.
        data: samples as the original_float model takes them.
    """
    shapes = [value.shape for node in optimized.graph for value in node.outputs]
    values = sum(math.prod(shape.numpy()) for shape in shapes if shape is not None and shape.is_static())
    most = max(_LEAST_LOOKED_AT, min(_MOST_LOOKED_AT, _MOST_VALUES // max(1, values)))
    looked_at = evenly_spread(len(data), most)
    feeds = (data.read(index, index + 1) for index in looked_at)
    found = [each for feed in feeds if (each := first_break(optimized, calibrated, quantized, feed)) is not None]
    if not found:
        return None
    counts = Counter(each.node for each in found)
    (node, samples), *others = counts.most_common()
    worst = min((each for each in found if each.node == node), key=lambda each: (not math.isnan(each.sqnr), each.sqnr))
    return replace(worst, samples=samples, of=len(looked_at), others=tuple(others))


_LEAST_LOOKED_AT, _MOST_LOOKED_AT = 3, 8
_MOST_VALUES = 1 << 25
"""Values of all tensors of the samples that are looked at; some seconds."""


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
            ratios[name] = _sqnr(node, found[name], expected[name])
            if not ratios[name] >= floor:
                names = [str(source.name) for source in node.inputs if source is not None]
                reads = [ratios[each] for each in names if each in ratios]
                before = min(reads, default=float("inf"))
                return Break(str(node.name), node.op_type, ratios[name], before, _remedy(node, expected))
    return None


def _sqnr(node: ir.Node, actual: NDArray[Any], wanted: NDArray[Any]) -> float:
    """dB; of a Concat the least of what it joins, as boxes hide scores."""
    actual, wanted = (np.asarray(array, np.float64) for array in (actual, wanted))
    parts = [(actual, wanted)]
    shapes = [static_shape(value) for value in node.inputs]
    if node.op_type == _JOINS and actual.shape == wanted.shape and None not in shapes:
        axis = node.attributes.get_int("axis", 0)
        ends = np.cumsum([shape[axis] for shape in shapes if shape is not None])[:-1]
        parts = list(zip(np.split(actual, ends, axis), np.split(wanted, ends, axis), strict=True))
    ratios = [measure(DistanceMeasure.SQNR, one.reshape(-1), other.reshape(-1)) for one, other in parts]
    return float(np.min(ratios))  # NaN where one is


_JOINS = "Concat"


def _remedy(node: ir.Node, expected: Mapping[str, NDArray[Any]]) -> str:
    """What to do about the break at ``node``, a node of the calibrated network with the float tensors ``expected``."""
    graph = node.graph
    for each in () if graph is None else graph:
        huge = _huge_constant(each, expected)
        if huge:
            instead = (
                "write it as pads of the MaxPool behind it, or pad with a number of the size of the others"
                if each.op_type == "Pad"
                else f"give {each.name} the CPU in node_info, or write a smaller number (-100 in a Softmax's mask)"
            )
            what = f"A constant of node {each.name} ({each.op_type}) holds {huge:.3g}, beside which the others vanish"
            return f"{what}: {instead}."
    if node.op_type.startswith(_RANDOM):
        return "It draws random numbers in every run: export the network without it."
    if node.metadata_props.get(MARK_ON) == Device.CPU:
        return "It runs on the CPU, on what the BPU gives it: see ptqlab bisect and hmct-debugger."
    return Break.remedy


def _huge_constant(node: ir.Node, expected: Mapping[str, NDArray[Any]]) -> float:
    """A number of an operand of ``node`` beside which those of its other operands vanish; 0 where there is none."""
    if node.op_type not in _SHARED_RANGE or node.metadata_props.get(MARK_ON) == Device.CPU:
        return 0.0
    sources = [before_calibration(value) for value in node.inputs if value is not None]
    if node.op_type == "Pad":
        sources = [source for index, source in enumerate(sources) if index in (0, 2)]
    constants = [array for source in sources if (array := constant_of(source)) is not None]
    others = [np.abs(expected[name]).max(initial=0.0) for source in sources if (name := str(source.name)) in expected]
    huge = max((float(array.flat[np.abs(array).argmax()]) for array in constants if array.size), key=abs, default=0.0)
    return huge if others and abs(huge) > _VANISHING * float(max(others)) else 0.0


_SHARED_RANGE = frozenset({"Add", "Concat", "Pad", "Sub", "Where"})
"""Operators whose operands share the range of the result."""
_VANISHING = 1e6
"""A constant that is as many times as large as what is computed leaves nothing of it in 16 bits."""
_RANDOM = ("Random", "Bernoulli", "Multinomial")
