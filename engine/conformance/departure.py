"""The first stage and node where our conversion of a case departs from the original's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest

import numpy as np
import onnx_ir as ir
from pydantic import BaseModel, ConfigDict

from engine.calibrate.methods.folding import fold_channel_scales
from engine.conformance.cases import RecordedCase
from engine.conformance.conversion import Ending, OurConversion
from engine.conformance.pairing import pair
from engine.conformance.stages import (
    activation_thresholds,
    calibrated_tensors,
    same_thresholds,
    weight_thresholds,
)
from engine.quantize.diff import Aspect, Difference, diff


class ComparedStage(StrEnum):
    """Stages in the order in which they are compared."""

    REFUSAL = "refusal"
    GRAPH = "graph"
    PLACEMENT = "placement"
    CALIBRATION = "calibration"
    QUANTISATION = "quantisation"
    DEVICES = "devices"
    COMPILATION = "compilation"
    CONVERSION = "conversion"
    OUTPUTS = "outputs"
    NAMES = "names"


class Departure(BaseModel):
    """Where ours departs first.

    Attributes:
        stage: of the conversion.
        node: name of the node or tensor, as the original calls it where it has it.
        cause: in one line; the original is named first.
    """

    model_config = ConfigDict(frozen=True)

    stage: ComparedStage
    node: str
    cause: str

    def __str__(self) -> str:
        return f"{self.stage.value}: {self.node}: {self.cause}" if self.node else f"{self.stage.value}: {self.cause}"


def departure(
    case: RecordedCase, ours: OurConversion, calibrated: ir.Model | None, quantized: ir.Model | None, outputs: str
) -> Departure | None:
    """The first departure; ``None`` where everything agrees.

    Args:
        case: what was converted.
        ours: what we made of it.
        calibrated: the original's calibrated model.
        quantized: the original's quantised model.
        outputs: why our outputs are not the original's; empty where they are.
    """
    if case.refusal:
        text = f"the original refuses: {case.refusal}"
        if ours.outcome is Ending.REFUSED:
            return None
        kind = "ours converts" if ours.outcome is Ending.CONVERTED else f"ours ends with {ours.message}"
        return Departure(stage=ComparedStage.REFUSAL, node="", cause=f"{text}; {kind}")
    steps: list[Callable[[], Departure | None]] = []
    renamed: Departure | None = None
    if calibrated is not None and ours.calibrated is not None:
        first, second = calibrated, ours.calibrated.clone()
        fold_channel_scales(second)
        pairing = pair(first, second)
        if pairing.difference is not None:
            return _found(ComparedStage.GRAPH, pairing.difference)
        renamed = _found(ComparedStage.NAMES, pairing.renamed)
        steps.append(lambda: _placement(first, second, pairing.names))
        if case.has_weights:
            steps.append(lambda: _thresholds(first, second, pairing.names))
            steps.append(lambda: _found(ComparedStage.CALIBRATION, pairing.weight))
    if quantized is not None and ours.quantized is not None:
        third, fourth = quantized, ours.quantized
        steps += [lambda: _quantisation(third, fourth)] if case.has_weights else []
        steps.append(lambda: _order(third, fourth))
    if ours.outcome is Ending.CONVERTED:
        steps += [lambda: _devices(case.devices, ours.devices), lambda: _subgraphs(case, ours)]
    else:
        steps.append(
            lambda: Departure(stage=ComparedStage.CONVERSION, node="", cause=f"{ours.outcome.value}: {ours.message}")
        )
    if outputs:
        steps.append(lambda: Departure(stage=ComparedStage.OUTPUTS, node="", cause=outputs))
    steps += [lambda: renamed, lambda: _missing(case.devices, ours.devices)]
    return next((found for step in steps if (found := step()) is not None), None)


def _found(stage: ComparedStage, what: tuple[str, str] | None) -> Departure | None:
    return None if what is None else Departure(stage=stage, node=what[0], cause=what[1])


def _placement(theirs: ir.Model, ours: ir.Model, names: Mapping[str, str]) -> Departure | None:
    """Which tensors are quantised, and to what type."""
    actual = calibrated_tensors(ours)
    expected = {names.get(name, name): (name, kind) for name, kind in calibrated_tensors(theirs).items()}
    for key in (*expected, *actual):
        name, kind = expected.get(key, (key, "nothing"))
        if kind != actual.get(key, "nothing"):
            cause = f"quantised to {kind} | {actual.get(key, 'nothing')}"
            return Departure(stage=ComparedStage.PLACEMENT, node=name, cause=cause)
    return None


def _thresholds(theirs: ir.Model, ours: ir.Model, names: Mapping[str, str]) -> Departure | None:
    for read, what in ((weight_thresholds, "weight"), (activation_thresholds, "activation")):
        actual = read(ours)
        for name, values in read(theirs).items():
            found = actual.get(names.get(name, name))
            if found is None or not same_thresholds(values, found):
                text = "none" if found is None else _threshold_text(found)
                cause = f"{what} threshold {_threshold_text(values)} | {text}"
                return Departure(stage=ComparedStage.CALIBRATION, node=name, cause=cause)
    return None


def _threshold_text(values: Sequence[float] | np.ndarray) -> str:
    array = np.asarray(values)
    if array.size == 1:
        return f"{array.ravel()[0]:.8g}"
    return f"{array.size} channels, largest {array.max(initial=0):.8g}, first {array.ravel()[:1]}"


def _quantisation(theirs: ir.Model, ours: ir.Model) -> Departure | None:
    """The earliest node of the original's graph that differs."""
    found = diff(theirs, ours)
    order = {str(node.name): index for index, node in enumerate(theirs.graph)}
    serious = [item for item in found if item.aspect is not Aspect.NAME]
    if serious:
        first = min(serious, key=lambda item: order.get(item.where, len(order)))
        return Departure(stage=ComparedStage.QUANTISATION, node=first.where, cause=_text(first))
    return None


def _order(theirs: ir.Model, ours: ir.Model) -> Departure | None:
    for node, other in zip_longest(theirs.graph, ours.graph):
        types = [getattr(item, "op_type", "nothing") for item in (node, other)]
        if types[0] != types[1]:
            name = str(getattr(node, "name", "the end"))
            return Departure(stage=ComparedStage.QUANTISATION, node=name, cause=f"order: {types[0]} | {types[1]}")
    return None


def _text(item: Difference) -> str:
    count = f" ({item.elements} of {item.total})" if item.total > 1 else ""
    return f"{item.aspect.value} {item.what}: {item.first} | {item.second}{count}"


def _devices(expected: Mapping[str, str], actual: Mapping[str, str]) -> Departure | None:
    for name, on in expected.items():
        if actual.get(name, on) != on:
            return Departure(stage=ComparedStage.DEVICES, node=name, cause=f"{on} | {actual[name]}")
    return None


def _missing(expected: Mapping[str, str], actual: Mapping[str, str]) -> Departure | None:
    name = next((name for name in expected if name not in actual), None)
    return _found(ComparedStage.NAMES, None if name is None else (name, "our node table has no such node"))


def same_subgraphs(case: RecordedCase, ours: OurConversion) -> bool | None:
    """Whether there are as many BPU subgraphs as in the original; ``None`` where one of the two has no figures of them.

    The reduced form of a case has only their sum.
    """
    if case.reduced or not case.latencies_us or not ours.latencies_us:
        return None
    return len(case.latencies_us) == len(ours.latencies_us)


def _subgraphs(case: RecordedCase, ours: OurConversion) -> Departure | None:
    if same_subgraphs(case, ours) is not False:
        return None
    cause = f"{len(case.latencies_us)} BPU subgraphs | {len(ours.latencies_us)}"
    return Departure(stage=ComparedStage.COMPILATION, node="", cause=cause)
