"""What the questions ask, and that their networks can be asked it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto

from engine.calibrate.methods.channels import LEAST_MAXIMUM, LEAST_WEIGHT
from engine.chips import March
from engine.conformance.questions.questions import _LARGEST_WEIGHTS, _REACHES, QUESTIONS, Question
from engine.convert import Draft, check

BY_NAME = {question.name: question for question in QUESTIONS}


def of(name: str) -> tuple[ModelProto, np.ndarray]:
    """SmallNetwork and calibration data of a question."""
    network = BY_NAME[name].build()
    return network.model(), network.samples()


def rows(name: str, folder: Path, march: str = "bayes-e") -> dict[str, tuple[str, str]]:
    """Device and data type of each node."""
    (folder / "m.onnx").write_bytes(of(name)[0].SerializeToString())
    return {row.node: (row.on, row.data_type) for row in check(folder / "m.onnx", Draft(march=march)).nodes}


def test_names_are_their_own() -> None:
    assert len(BY_NAME) == len(QUESTIONS)
    assert all(question.asks.endswith("?") and question.meanwhile.endswith(".") for question in QUESTIONS)


@pytest.mark.parametrize(
    ("question", "march"),
    [
        pytest.param(question, march, id=f"{question.name}-{march}", marks=pytest.mark.nightly if index else ())
        for question in QUESTIONS
        for index, march in enumerate(question.marches)
    ],
)
def test_a_network_converts_on_every_march_that_is_asked(question: Question, march: March, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(question.build().model().SerializeToString())
    assert any(row.on == "BPU" for row in check(path, Draft(march=march.value)).nodes)


def test_ranges_lie_on_both_sides_of_the_constants_that_are_asked_for() -> None:
    model, samples = of("ranges_of_channels")
    for node in list(model.graph.node):
        if node.op_type == "Relu":
            model.graph.output.add().name = node.output[0]
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs() if value.name.startswith("relu")]
    runs = [session.run(names, {"x": sample}) for sample in samples]
    reached = [max(float(run[index].max()) for run in runs) for index in range(len(names))]
    assert reached == pytest.approx([reach for reach in _REACHES for _ in _LARGEST_WEIGHTS], rel=1e-4)
    assert min(_REACHES) < LEAST_MAXIMUM < max(_REACHES)
    assert min(_LARGEST_WEIGHTS) < LEAST_WEIGHT < max(_LARGEST_WEIGHTS)


def test_what_is_done_meanwhile_with_tails_is_what_is_said(tmp_path: Path) -> None:
    found = rows("divided_tails", tmp_path)
    assert (found["Split_2"], found["Split_5"]) == (("BPU", "int8"), ("BPU", "int16"))


def test_what_is_done_meanwhile_with_five_dimensions_is_what_is_said(tmp_path: Path) -> None:
    found = rows("decoded_boxes", tmp_path)
    assert {device for device, _ in found.values()} == {"BPU"}
    assert {found[name][1] for name in found if name.startswith("Split")} == {"int16"}
    on_cpu = {node for node, (device, _) in rows("decoded_boxes", tmp_path, "bernoulli2").items() if device == "CPU"}
    assert {node for node in found if node.startswith(("Mul", "Add"))} <= on_cpu


def test_what_is_done_meanwhile_with_one_axis_is_what_is_said(tmp_path: Path) -> None:
    found = rows("lines", tmp_path)
    assert {found[name][0] for name in found if name.startswith("Conv")} == {"CPU"}
    assert {found[name][0] for name in found if name.startswith("MaxPool")} == {"BPU"}
    assert {found[name][0] for name in found if name.startswith("Add")} == {"BPU"}
