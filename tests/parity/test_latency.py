"""Latency and traffic that ``ptqlab predict`` gives for the models behind measured compilations, built anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.config import NodeInfo
from engine.convert import Draft, check
from engine.perf import Performance
from engine.terms import InputType
from research.built import builder
from research.corpus import MeasuredRow, read_rows

pytestmark = pytest.mark.reference

BY_DAY, AT_NIGHT = (6, 3), (2, 1)
"""Every so many rows of single layers and stacks, and of :data:`VARIED`, are built."""
LEAST_US = 30.0
"""Rows below are left out of latency errors, as the bars leave them out."""


VARIED = frozenset({"op", "bin", "tail", "op4", "dil4", "conv_relu6"})
"""Groups of rows with other operators than convolutions."""

Predictions = list[tuple[MeasuredRow, Performance]]


@pytest.fixture(scope="module")
def predictions(
    request: pytest.FixtureRequest, reference_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Predictions:
    """What the converter predicts for rows at O2; the parameter says how many of them."""
    target = tmp_path_factory.mktemp("models") / "model.onnx"
    build = builder(reference_dir / "latency" / "build_model.py")
    found = []
    for row in chosen(read_rows(reference_dir / "latency" / "latency.jsonl"), *request.param):
        build(row.spec, target)
        node_info = {name: NodeInfo.model_validate(info) for name, info in row.spec.get("node_info", {}).items()}
        kind = InputType(row.spec.get("in_type", "featuremap"))
        found.append((row, check(target, Draft(row.march, input_type=kind, node_info=node_info)).performance))
    return found


def chosen(rows: tuple[MeasuredRow, ...], step: int, step_of_varied: int) -> Iterator[MeasuredRow]:
    """Every ``step``-th row of one core at O2; of :data:`VARIED` every ``step_of_varied``-th."""
    plain = [
        row
        for row in rows
        if "net" not in row.spec and (row.optimize_level, row.compile_mode, row.core_num) == ("O2", "latency", 1)
    ]
    steps = [step_of_varied if row.group in VARIED else step for row in plain]
    return (row for index, row in enumerate(plain) if index % steps[index] == 0)


@pytest.mark.parametrize("predictions", [AT_NIGHT], ids=["all"], indirect=True)
@pytest.mark.nightly
@pytest.mark.parametrize("march", ["bayes-e", "bayes", "bernoulli2"])
def test_o2_is_predicted_as_well_as_documented(predictions: Predictions, march: str) -> None:
    """The bars of all rows, tried on a part of them that the converter makes seconds of."""
    pairs = [(row, found) for row, found in predictions if row.march == march and row.latency_us > LEAST_US]
    latency = np.abs([found.latency_us / row.latency_us - 1 for row, found in pairs])
    traffic = np.abs([found.ddr_bytes / row.ddr_bytes - 1 for row, found in pairs])
    assert len(latency) > 30
    assert np.median(latency) <= 0.08
    assert np.quantile(latency, 0.9) <= 0.25
    assert np.median(traffic) <= 0.02
    assert np.quantile(traffic, 0.9) <= 0.10


@pytest.mark.parametrize(
    "predictions", [BY_DAY, pytest.param(AT_NIGHT, marks=pytest.mark.nightly)], ids=["some", "all"], indirect=True
)
def test_cpu_nodes_and_subgraphs_are_those_of_the_original(predictions: Predictions) -> None:
    """Names and types of CPU nodes, and how often the BPU is left."""
    differences = {
        row.id: (found.cpu_nodes, row.cpu_nodes)
        for row, found in predictions
        if (sorted(found.cpu_nodes), len(found.subgraphs)) != (sorted(row.cpu_nodes), row.subgraphs)
    }
    assert differences == {}
