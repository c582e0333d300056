"""What differs between two nights, in words."""

from __future__ import annotations

from typing import Any

import pytest

from harness.gates.differences import (
    Kind,
    of_artefacts,
    of_data,
    of_environments,
    of_float,
    of_models,
    of_nodes,
)
from harness.gates.made import KeptNode, Made
from harness.trials.artefacts import Artefact
from harness.trials.origins import Environment, ModelOrigin

BEFORE = Environment(
    version="0.1+a",
    stages={"place": "1", "quantize": "2"},
    tools={"numpy": "2.0", "numba": "0.61"},
    sources={"a.py": "1", "b.py": "2"},
)
ORIGIN = ModelOrigin(
    file="f" * 64,
    preprocessing={"input_type_train": "rgb"},
    calibration="first 8 of split train",
    evaluation="first 9 of split evaluation",
    data="digits",
    data_digest="d",
    metric="top1",
    float_score=0.9,
)


def made(**changes: Any) -> Made:
    fields: dict[str, Any] = {"engine": "0", "calibration_samples": 8, "evaluation_samples": 9, "float_score": 0.9}
    return Made(**{**fields, **changes})


def node(**changes: Any) -> KeptNode:
    fields: dict[str, Any] = {"on": "BPU", "type": "Conv", "data_type": "int8", "threshold": 2.0, "cosine": 0.99}
    return KeptNode(**{**fields, **changes})


def test_equal_nights_have_no_differences() -> None:
    nodes = {"a": node()}
    assert of_environments(BEFORE, BEFORE) == []
    assert of_models(ORIGIN, ORIGIN) == []
    assert of_data((ORIGIN, ORIGIN), made(), made()) == []
    assert of_float(made(), made()) is None
    assert of_artefacts(made(), made()) is None
    assert list(of_nodes(nodes, nodes)) == []


def test_sources_and_the_first_stage_that_depends_on_them() -> None:
    now = BEFORE.model_copy(
        update={"version": "0.1+b", "stages": {"place": "1", "quantize": "3"}, "sources": {"b.py": "3", "c.py": "1"}}
    )
    (cause,) = of_environments(BEFORE, now)
    assert cause.kind is Kind.ENGINE
    text = "a.py (removed), b.py, c.py (new) changed; first stage that depends on it: quantize (0.1+a → 0.1+b)"
    assert cause.text == text


def test_tools_by_their_versions() -> None:
    now = BEFORE.model_copy(update={"tools": {"numpy": "2.1", "onnxruntime": "1.2"}})
    (cause,) = of_environments(BEFORE, now)
    assert str(cause) == "tools: numba 0.61 → absent; numpy 2.0 → 2.1; onnxruntime absent → 1.2"


def test_cards_and_files() -> None:
    now = ORIGIN.model_copy(
        update={"file": "absent", "preprocessing": {"input_type_train": "bgr", "mean_value": "1"}, "metric": "top5"}
    )
    assert [str(cause) for cause in of_models(ORIGIN, now)] == [
        "model file: SHA-256 ffffffffffff… → absent",
        "preprocessing: input_type_train rgb → bgr; mean_value not given → 1",
        "metric: top1 → top5",
    ]


@pytest.mark.parametrize(
    ("digests", "kinds"),
    [
        (("a", "b"), []),
        (("x", "b"), [Kind.CALIBRATION_DATA]),
        (("a", "x"), [Kind.EVALUATION_DATA]),
    ],
)
def test_data_are_told_apart_by_their_content(digests: tuple[str, str], kinds: list[Kind]) -> None:
    def of(calibration: str, evaluation: str) -> Made:
        artefacts = {Artefact.CALIBRATION_IMAGES: calibration, Artefact.EVALUATION_IMAGES: evaluation}
        return made(artefacts=artefacts)

    now = ORIGIN.model_copy(update={"data_digest": "other"})
    assert [cause.kind for cause in of_data((ORIGIN, now), of("a", "b"), of(*digests))] == kinds


def test_data_of_a_failed_trial_are_what_it_was_asked_for() -> None:
    now = ORIGIN.model_copy(update={"calibration": "first 4 of split train"})
    found = of_data((ORIGIN, now), made(), made(calibration_samples=4), failed=True)
    text = "calibration data: 8 → 4 samples; first 8 of split train → first 4 of split train"
    assert [str(cause) for cause in found] == [text]


def test_the_float_score_and_the_first_artefact() -> None:
    assert str(of_float(made(), made(float_score=0.5))) == "float score: fell too: 0.9000 → 0.5000"
    before = made(artefacts={Artefact.ORIGINAL: "1", Artefact.PLACED: "2", Artefact.OUTPUTS: "3"})
    now = made(artefacts={Artefact.ORIGINAL: "1", Artefact.PLACED: "0", Artefact.OUTPUTS: "0"})
    assert str(of_artefacts(before, now)) == "artefact: placed differs first; the same: original_float"


def test_nodes_that_moved_and_figures_that_fell() -> None:
    before = {name: node() for name in "abcd"}
    now = {
        "a": node(threshold=3.0, cosine=0.98),
        "b": node(threshold=9.0, cosine=0.5),
        "c": node(on="CPU", threshold=None, cosine=None, reason="no operator"),
        "d": node(data_type="int16"),
    }
    assert [str(cause) for cause in of_nodes(before, now)] == [
        "placement: newly on the CPU: c (no operator)",
        "type: d int8 → int16",
        "threshold: differs first at node a: 2 → 3 (+50.00%)",
        "cosine: fell most at node b: 0.990000 → 0.500000",
    ]


def test_another_graph_is_named_by_its_nodes() -> None:
    found = [str(cause) for cause in of_nodes({"a": node()}, {"b": node()})]
    assert found == ["placement: different nodes in the graph; gone: a; new: b"]
