"""A finished sweep, as reports show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.gates.choice import choose
from harness.gates.judgement import References
from harness.report.results import Sweep
from harness.tracking.sync import SharedSeconds
from harness.trials.trial import Outcome, TrialStore, UnmetRequest
from tests.harness import fakes, finished
from tests.harness.report.judged import judged


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    specs = [fakes.spec(model, setting) for model in ("one", "two") for setting in (fakes.Settings(), fakes.KL)]
    specs.append(fakes.spec("two", fakes.INT16))
    results = [
        fakes.result(specs[0], value=0.90, latency=1.0),
        fakes.result(specs[1], value=0.92, latency=1.0),
        fakes.result(specs[2], value=0.93, latency=3.0).model_copy(
            update={"unmet": (UnmetRequest(node="n", request="int16", reason="<no>"),)}
        ),
        fakes.failed(specs[3]),
        fakes.result(specs[4], value=0.95, latency=4.0),
    ]
    store = TrialStore(tmp_path / "kept")
    for result, right in zip(results, (0, 20, 0, 0, 40), strict=True):
        store.put(Outcome(result, (), {"per_sample": fakes.hits(right)} if result.ok else None))
    made = finished.sweep(
        results,
        suite=finished.suite(models="*"),
        seconds=12.0,
        reused=1,
        shared=(SharedSeconds(model="one", march="bayes-e", seconds={"statistics": 1.5}),),
        choices=choose(results, store),
    )
    return judged(made, References(), tmp_path)
