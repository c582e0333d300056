"""What of one case agrees: the measures of a conformance table, each for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir
from pydantic import BaseModel, ConfigDict

from engine.conformance.cases import RecordedCase, RecordedSample
from engine.conformance.conversion import Ending, OurConversion, attempt, convert_case
from engine.conformance.departure import Departure, departure, same_subgraphs
from engine.conformance.stages import activation_thresholds, integers, same_thresholds
from engine.errors import InferenceError
from engine.ir import load_model
from engine.simulate import Session
from engine.simulate.session import Mode

OUTPUT_TOLERANCE = 1e-6
"""Largest difference of equal outputs, relative to the tensor's largest magnitude."""
FLOAT_TOLERANCE = 1e-5
"""Largest relative difference of equal outputs where float operators of the file are rounded by the runtime
(reference/arithmetic.md 3)."""
ROUNDED_OPERATORS = frozenset({"Softmax", "HzSoftmax", "MatMul"})
"""Float operators of quantised files that two runtimes round differently; HzSoftmax is one over channels."""


class Share(BaseModel):
    """How many of some things are equal."""

    model_config = ConfigDict(frozen=True)

    equal: int
    total: int


class Row(BaseModel):
    """One case of a conformance table; ``None`` where there is nothing to compare.

    Attributes:
        case: its name.
        family: the network.
        march: BPU architecture.
        held_out: whether the network is held out while rules are developed.
        reduced: whether it is a network of a few nodes that shows one rule.
        outcome: how our conversion ended.
        refusal: why the original refused; empty where it did not.
        message: why ours did not convert.
        converts: whether both convert or both refuse.
        outputs: whether our quantised model gives the original's recorded outputs.
        output_error: largest difference, relative to the tensor's largest magnitude; or ``output_message``, why it does
            not run.
        output_message: see ``output_error``.
        outputs_in_order: the same, where they differ and the option ``bias_correction`` is on, of a conversion that
            corrects in the order that the recording shows: the original leaves it to chance.
        operators: whether the quantised models have the same operators in the same order.
        thresholds: activation thresholds, by name of the tensor.
        devices: nodes of the original's node table on the same device, by name.
        subgraphs: whether there are as many BPU subgraphs.
        integers: integer constants of the quantised model, by name.
        simulator: whether the original's quantised model gives its recorded outputs on our simulator.
        simulator_error: largest difference, as ``output_error``; or ``simulator_message``, why it does not run.
        simulator_message: see ``simulator_error``.
        latency_us: the original's, sum of BPU subgraphs.
        predicted_us: ours.
        departure: the first stage and node where ours departs.
        seconds: that the case took.
    """

    model_config = ConfigDict(frozen=True)

    case: str
    family: str
    march: str
    held_out: bool = False
    reduced: bool = False
    outcome: Ending
    refusal: str = ""
    message: str = ""
    converts: bool | None
    outputs: bool | None = None
    output_error: float | None = None
    output_message: str = ""
    outputs_in_order: bool | None = None
    operators: bool | None = None
    thresholds: Share | None = None
    devices: Share | None = None
    subgraphs: bool | None = None
    integers: Share | None = None
    simulator: bool | None = None
    simulator_error: float | None = None
    simulator_message: str = ""
    latency_us: float | None = None
    predicted_us: float | None = None
    departure: Departure | None = None
    seconds: float = 0.0

    @property
    def latency_error(self) -> float | None:
        """Relative to the original's."""
        if self.latency_us is None or self.predicted_us is None or self.latency_us == 0:
            return None
        return abs(self.predicted_us / self.latency_us - 1)


def unread(case: RecordedCase, reason: str) -> Row:
    """The row of a case that cannot be read; it does not count as a disagreement."""
    return Row(
        case=case.name,
        family=case.family,
        march=case.march,
        reduced=case.reduced,
        outcome=Ending.UNREAD,
        message=reason,
        converts=None,
    )


def measure(case: RecordedCase, folder: Path, modes: Sequence[Mode] = (Mode.FAST,)) -> Row:
    """Convert ``case`` and compare with what the original made of it.

    Args:
        case: what to measure.
        folder: where files appear.
        modes: simulators that run the original's quantised model.

    Raises:
        PtqlabError: a file of the case is damaged.
    """
    if case.damage:
        return unread(case, case.damage)
    ours = convert_case(case, folder)
    row = Row(
        case=case.name,
        family=case.family,
        march=case.march,
        reduced=case.reduced,
        outcome=ours.outcome,
        refusal=case.refusal,
        message=ours.message,
        converts=ours.outcome is (Ending.REFUSED if case.refusal else Ending.CONVERTED),
    )
    if case.has_weights:
        row = row.model_copy(update=_run_original(case, modes))
    if case.refusal:
        return row.model_copy(update={"departure": departure(case, ours, None, None, "")})
    calibrated = load_model(case.calibrated) if case.calibrated.is_file() else None
    quantized = load_model(case.quantized) if case.quantized.is_file() else None
    found = _run_ours(case, ours) if case.has_weights else _Run()
    ordered = found
    if found.text and case.corrects_biases and case.calibrated.is_file():
        ordered = _run_ours(case, convert_case(case, folder / "in_its_order", in_its_order=True))
    return row.model_copy(
        update={
            **found.as_fields(),
            "outputs_in_order": ordered.equal(OUTPUT_TOLERANCE),
            **(_values(ours, calibrated, quantized) if case.has_weights else {}),
            "operators": None if quantized is None else _types(ours.quantized) == _types(quantized),
            "devices": _devices(ours, case.devices),
            "subgraphs": same_subgraphs(case, ours),
            "latency_us": sum(case.latencies_us) if case.latencies_us else None,
            "predicted_us": sum(ours.latencies_us) if case.latencies_us and ours.latencies_us else None,
            "departure": departure(case, ours, calibrated, quantized, found.text),
        }
    )


def _values(ours: OurConversion, calibrated: ir.Model | None, quantized: ir.Model | None) -> dict[str, object]:
    """What depends on weights and data."""
    return {
        "thresholds": None if calibrated is None else _thresholds(ours.calibrated, calibrated),
        "integers": None if quantized is None else _integers(ours.quantized, quantized),
    }


class _Run(BaseModel):
    """Recorded outputs beside those of a run; ``error`` is None where nothing was recorded."""

    error: float | None = None
    message: str = ""

    def equal(self, tolerance: float) -> bool | None:
        if self.message:
            return False
        return None if self.error is None else self.error <= tolerance

    @property
    def text(self) -> str:
        """Why the outputs are not equal; empty where they are."""
        if self.equal(OUTPUT_TOLERANCE) is not False:
            return ""
        return self.message or f"outputs differ by {self.error:.3g} of the largest magnitude"

    def as_fields(self) -> dict[str, object]:
        return {
            "outputs": self.equal(OUTPUT_TOLERANCE),
            "output_error": self.error,
            "output_message": self.message,
        }


def _run_original(case: RecordedCase, modes: Sequence[Mode]) -> dict[str, object]:
    """The worst of the simulators."""
    if not case.quantized.is_file():
        return {}
    runs = [_run(case.quantized, case.samples(), mode) for mode in modes]
    found = max(runs, key=lambda run: (bool(run.message), run.error or 0.0))
    types = {node.op_type for node in load_model(case.quantized).graph}
    tolerance = FLOAT_TOLERANCE if types & ROUNDED_OPERATORS else 0.0
    return {
        "simulator": found.equal(tolerance),
        "simulator_error": found.error,
        "simulator_message": found.message,
    }


def _run_ours(case: RecordedCase, ours: OurConversion) -> _Run:
    samples = _without_idle_inputs(case)
    if not samples:
        return _Run()
    if ours.quantized is None:
        return _Run(message="no quantised model")
    return _run(ours.quantized, samples)


def _without_idle_inputs(case: RecordedCase) -> Sequence[RecordedSample]:
    """What the original computed, without inputs that no node of its file reads.

    Two of eight int16 conversions asked have the scale of a requantised Relu or Reshape left over among the inputs.
    """
    samples = case.samples()
    if not any(len(sample.inputs) > 1 for sample in samples) or not case.quantized.is_file():
        return samples
    read = {str(value.name) for node in load_model(case.quantized).graph for value in node.inputs if value is not None}
    return [
        RecordedSample({name: array for name, array in sample.inputs.items() if name in read}, sample.outputs)
        for sample in samples
    ]


def _run(model: Path | ir.Model, samples: Sequence[RecordedSample], mode: Mode = Mode.FAST) -> _Run:
    if not samples:
        return _Run()
    done = attempt(lambda: _largest_error(model, samples, mode))
    return _Run(error=done.value, message=done.message)


def _largest_error(model: Path | ir.Model, samples: Sequence[RecordedSample], mode: Mode) -> float:
    session = Session(model, mode, threads=1)
    error = 0.0
    for sample in samples:
        feed = {name or session.inputs[0].name: array for name, array in sample.inputs.items()}
        actual = session.run(feed)
        for name, expected in sample.outputs.items():
            if name not in actual or actual[name].shape != expected.shape:
                found = {key: list(array.shape) for key, array in actual.items()}
                raise InferenceError(f"output {name} {list(expected.shape)} is expected, found {found}")
            scale = float(np.max(np.abs(expected), initial=0)) or 1.0
            difference = np.abs(actual[name].astype(np.float64) - expected.astype(np.float64))
            error = max(error, float(np.max(difference, initial=0.0)) / scale)
    return error


def _types(model: ir.Model | None) -> list[str]:
    return [] if model is None else [node.op_type for node in model.graph]


def _thresholds(ours: ir.Model | None, theirs: ir.Model) -> Share:
    expected = activation_thresholds(theirs)
    found = {} if ours is None else activation_thresholds(ours)
    equal = sum(name in found and same_thresholds(found[name], values) for name, values in expected.items())
    return Share(equal=equal, total=len(expected))


def _devices(ours: OurConversion, expected: Mapping[str, str]) -> Share | None:
    if not expected:
        return None
    return Share(equal=sum(ours.devices.get(name) == on for name, on in expected.items()), total=len(expected))


def _integers(ours: ir.Model | None, theirs: ir.Model) -> Share:
    expected = integers(theirs)
    found = {} if ours is None else integers(ours)
    equal = sum(name in found and np.array_equal(found[name], array) for name, array in expected.items())
    return Share(equal=equal, total=len(expected))
