"""Departures of one kind have one signature, whatever names and numbers are in them."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from engine.conformance.cases import RecordedCase
from engine.conformance.conversion import Ending
from engine.conformance.departure import ComparedStage, Departure
from engine.conformance.hunt.signatures import SIMULATOR, Signature, general, signatures
from engine.conformance.measures import Row
from tests.engine.conformance.hunt.test_cutting import chain, item


def case(folder: Path) -> RecordedCase:
    onnx.save(chain().model(), folder / "calibrated.onnx")
    return RecordedCase(folder, "n", "n", "bayes", folder / "c.yaml", False, True, "", {}, ())


def row(**values: object) -> Row:
    known = {"case": "n", "family": "n", "march": "bayes", "outcome": Ending.CONVERTED, "converts": True}
    return Row.model_validate({**known, **values})


def of(folder: Path, stage: ComparedStage, node: str, cause: str, **calibration: object) -> Signature:
    departing = row(departure=Departure(stage=stage, node=node, cause=cause))
    (found,) = signatures(departing, case(folder), item(chain(), **calibration))
    return found


def test_agreement_has_none(tmp_path: Path) -> None:
    assert signatures(row(simulator=True), case(tmp_path), item(chain())) == ()


def test_a_tensor_is_its_operator_and_its_readers(tmp_path: Path) -> None:
    found = of(tmp_path, ComparedStage.PLACEMENT, "conv_2", "quantised to nothing | int8")
    assert found == Signature(
        stage="placement", operator="Conv", readers=("Mul", "Sigmoid"), cause="quantised to nothing | int8"
    )
    assert str(found) == "placement at Conv, read by Mul and Sigmoid: quantised to nothing | int8"


def test_inputs_and_names_of_the_quantised_graph_are_known(tmp_path: Path) -> None:
    assert of(tmp_path, ComparedStage.PLACEMENT, "x", "c").operator == "input"
    assert of(tmp_path, ComparedStage.QUANTISATION, "relu_1_quantized", "c").operator == "Relu"
    assert of(tmp_path, ComparedStage.GRAPH, "Conv_0", "c").operator == "Conv"
    assert of(tmp_path, ComparedStage.GRAPH, "no_such_node", "c").operator == ""


def test_numbers_do_not_tell_thresholds_apart_but_settings_do(tmp_path: Path) -> None:
    stage = ComparedStage.CALIBRATION
    texts = ("activation threshold 1.5 | 2.25e-05", "activation threshold 7 | 8.125")
    first, second = (of(tmp_path, stage, "relu_1", text) for text in texts)
    assert first == second
    assert of(tmp_path, stage, "relu_1", texts[0], per_channel=True) != first
    assert first.settings == "max"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("reads conv_12 | relu_3", "reads conv | relu"),
        ("reads conv_2 | /model.0/act/Mul_output_0", "reads Conv | Mul_output"),
        ("activation threshold 16 channels, largest 3.5, first [1.]", "activation threshold of channels"),
        ("attribute axis: -1 | 3", "attribute axis: N | N"),
    ],
)
def test_causes_lose_names_and_numbers(text: str, wanted: str) -> None:
    assert general(text, {"conv_2": ("Conv", ())}).replace("_N", "") == wanted


def test_a_file_that_runs_otherwise_is_a_departure_of_its_own(tmp_path: Path) -> None:
    departing = row(
        simulator=False, simulator_error=0.1, departure=Departure(stage=ComparedStage.GRAPH, node="Conv_0", cause="c")
    )
    first, second = signatures(departing, case(tmp_path), item(chain()))
    assert first.stage == "graph"
    assert (second.stage, second.cause) == (SIMULATOR, "outputs differ")
