"""What of one case agrees, with one thing changed at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from engine.conformance import measures
from engine.conformance.cases import RecordedCase, RecordedSample, find_cases
from engine.conformance.conversion import Ending, OurConversion
from engine.conformance.measures import FLOAT_TOLERANCE, OUTPUT_TOLERANCE, Row, Share, measure, unread
from engine.ir import calibration_nodes, load_model
from tests.golden_cases import BUNDLED

(CASE,) = find_cases(BUNDLED / "cases" / "min_fc_bayes-e_max_rgb")
Change = Callable[[OurConversion], OurConversion]


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Row]:
    """The row of a case that we convert exactly as the original did, but for a change; what runs differ by is given."""

    def run(change: Change = lambda ours: ours, case: RecordedCase = CASE, error: float = 0.0) -> Row:
        models = load_model(CASE.calibrated), load_model(CASE.quantized)
        ours = OurConversion(Ending.CONVERTED, "", *models, dict(CASE.devices), CASE.latencies_us)
        monkeypatch.setattr(measures, "convert_case", lambda case, folder, **_: change(ours))
        monkeypatch.setattr(measures, "_largest_error", lambda model, samples, mode: error)
        return measure(case, tmp_path)

    return run


def test_what_is_equal_agrees_in_all(measured: Callable[..., Row]) -> None:
    row = measured()
    assert (row.converts, row.outputs, row.operators, row.simulator, row.departure) == (True, True, True, True, None)
    for share in (row.thresholds, row.devices, row.integers):
        assert share is not None
        assert share.equal == share.total > 0
    assert row.latency_error == 0


@pytest.mark.parametrize(
    ("error", "outputs", "simulator"),
    [(0.0, True, True), (1e-9, True, False), (OUTPUT_TOLERANCE, True, False), (1.1e-6, False, False)],
)
def test_outputs_have_a_tolerance_and_the_simulator_of_integers_has_none(
    measured: Callable[..., Row], monkeypatch: pytest.MonkeyPatch, error: float, outputs: bool, simulator: bool
) -> None:
    monkeypatch.setattr(measures, "ROUNDED_OPERATORS", frozenset())
    row = measured(error=error)
    assert (row.outputs, row.simulator, row.output_error, row.simulator_error) == (outputs, simulator, error, error)


def test_float_operators_give_the_simulator_a_tolerance(
    measured: Callable[..., Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (OUTPUT_TOLERANCE, FLOAT_TOLERANCE) == (1e-6, 1e-5)
    kind = next(iter(load_model(CASE.quantized).graph)).op_type
    monkeypatch.setattr(measures, "ROUNDED_OPERATORS", {kind})
    assert measured(error=1e-5).simulator is True
    assert measured(error=1.1e-5).simulator is False


def test_a_threshold_that_moves_is_counted(measured: Callable[..., Row]) -> None:
    def move(ours: OurConversion) -> OurConversion:
        node = next(node for node in calibration_nodes(ours.calibrated) if node.inputs[0].const_value is None)
        node.attributes["thresholds"] = ir.AttrFloat32s("thresholds", [123.0])
        return ours

    share = measured(move).thresholds
    assert share.total - share.equal == 1


def test_an_integer_that_moves_is_counted(measured: Callable[..., Row]) -> None:
    def move(ours: OurConversion) -> OurConversion:
        value = next(v for v in ours.quantized.graph.initializers.values() if v.const_value.numpy().dtype.kind in "iu")
        value.const_value = ir.tensor(value.const_value.numpy() + 1, name=value.name)
        return ours

    share = measured(move).integers
    assert share.total - share.equal == 1


def test_devices_operators_and_latencies(measured: Callable[..., Row]) -> None:
    first = next(iter(CASE.devices))
    changes = {"devices": {**CASE.devices, first: "elsewhere"}, "latencies_us": (sum(CASE.latencies_us) * 1.5,)}
    row = measured(lambda ours: replace(ours, **changes))
    assert row.devices == Share(equal=len(CASE.devices) - 1, total=len(CASE.devices))
    assert row.latency_error == pytest.approx(0.5)

    def drop(ours: OurConversion) -> OurConversion:
        next(iter(ours.quantized.graph)).op_type = "Other"
        return ours

    assert measured(drop).operators is False


@pytest.mark.parametrize(
    ("outcome", "refusal", "converts"),
    [
        (Ending.CONVERTED, "", True),
        (Ending.REFUSED, "", False),
        (Ending.REFUSED, "too large", True),
        (Ending.CONVERTED, "too large", False),
        (Ending.CRASHED, "too large", False),
    ],
)
def test_both_convert_or_both_refuse(
    measured: Callable[..., Row], outcome: Ending, refusal: str, converts: bool
) -> None:
    row = measured(lambda ours: replace(ours, outcome=outcome), replace(CASE, refusal=refusal))
    assert (row.converts, row.refusal) == (converts, refusal)
    if refusal:
        assert (row.outputs, row.thresholds, row.operators) == (None, None, None)


def test_without_a_quantised_model_of_ours_there_are_no_outputs(measured: Callable[..., Row]) -> None:
    row = measured(lambda ours: replace(ours, quantized=None, calibrated=None))
    assert (row.outputs, row.output_message, row.operators) == (False, "no quantised model", False)
    assert (row.thresholds.equal, row.integers.equal) == (0, 0)


def test_without_weights_only_the_structure_is_compared(measured: Callable[..., Row]) -> None:
    row = measured(case=replace(CASE, has_weights=False))
    assert (row.outputs, row.simulator, row.thresholds, row.integers) == (None, None, None, None)
    assert (row.operators, row.devices is None) == (True, False)


def test_a_damaged_case_says_nothing_of_us(measured: Callable[..., Row]) -> None:
    row = measured(case=replace(CASE, damage="broken"))
    assert row == unread(CASE, "broken")
    assert (row.outcome, row.converts, row.message) == (Ending.UNREAD, None, "broken")


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [(10.0, 8.0, 0.2), (10.0, 12.0, 0.2), (0.0, 1.0, None), (None, 1.0, None), (1.0, None, None)],
)
def test_latency_errors(theirs: float | None, ours: float | None, expected: float | None) -> None:
    row = unread(CASE, "").model_copy(update={"latency_us": theirs, "predicted_us": ours})
    assert row.latency_error == (None if expected is None else pytest.approx(expected))


class Session:
    """Gives ``y`` of (1, 2), what it is fed less 1."""

    def __init__(self, model: object, mode: object, threads: int) -> None:
        self.inputs = [type("Input", (), {"name": "x"})]

    def run(self, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": feed["x"] - 1}


@pytest.mark.parametrize(
    ("expected", "error"), [([[3.0, -8.0]], 0.125), ([[4.0, -8.0]], 0.0), ([[0.0, 0.0]], 8.0), ([[4.0]], None)]
)
def test_errors_are_relative_to_the_largest_magnitude(
    monkeypatch: pytest.MonkeyPatch, expected: list[list[float]], error: float | None
) -> None:
    monkeypatch.setattr(measures, "Session", Session)
    sample = RecordedSample({"": np.asarray([[5.0, -7.0]])}, {"y": np.asarray(expected)})
    found: Any = measures._run(Path("m"), [sample])
    assert found.error == error
    assert ("output y [1, 1] is expected, found {'y': [1, 2]}" in found.message) == (error is None)
    assert found.equal(1.0) is (error is not None and error <= 1)
