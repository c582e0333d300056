"""The first step of the fit recovers constants."""

from __future__ import annotations

import numpy as np
import pytest

from engine.chips.latency import load_latency
from engine.compile.compiler import CompileOptions, memory_of
from engine.perf.performance import estimate_subgraph
from research.cases import MeasuredCase, errors_of
from research.constants import START, fit_constants
from tests.research.rows import row, schedule_of_row


@pytest.mark.nightly
def test_constants_of_a_synthetic_machine_are_recovered() -> None:
    """Bandwidths are the measured ones, near which the fit holds them; all other constants are free."""
    file = load_latency("bayes-e")
    bandwidths = {name: START["bayes-e"][name] for name in ("load_gbps", "store_gbps")}
    truth = file.model_copy(update={"fitted": file.fitted.model_copy(update=bandwidths), "overheads": {}})
    memory = memory_of(truth, CompileOptions())
    cases = []
    for channels in (16, 64, 256):
        for size in (7, 28, 56):
            for kernel in (1, 3, 5):
                schedule = schedule_of_row(row(channels, size, kernel), truth, memory)
                assert schedule is not None
                measured = row(channels, size, kernel, estimate_subgraph(schedule, truth).latency_us)
                cases.append(MeasuredCase.of(measured, schedule, truth))
    errors = errors_of(cases, fit_constants(cases, truth)).latency
    assert np.median(errors) < 0.005
    assert errors.max() < 0.02  # the priors pull a little
