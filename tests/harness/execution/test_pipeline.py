"""From a spec to its figures: what a refusal leaves, and which results an engine has."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.convert.items import PLACEMENT
from engine.errors import MissingError, UnsupportedError
from harness.backends.items import (
    BROKEN,
    DATA_DIGESTS,
    DATASET,
    DOUBTS,
    FLOAT_DIGESTS,
    FOOTPRINT,
    MODEL_DIGESTS,
    NODES,
    SCORED,
)
from harness.backends.values import Scored
from harness.execution import pipeline
from harness.execution.pipeline import prepare, run_trial
from harness.suites.settings import Engine, Settings
from harness.trials.figures import BrokenOutputs
from harness.trials.tasks import Bench, Preparation
from harness.trials.trial import Failure, Symptom, UnmetRequest
from tests.harness import fakes

GIVEN = fakes.result(fakes.spec())
BROKEN_OUTPUTS = BrokenOutputs(outputs=("y",), text="Output y is broken.")
UNMET = SimpleNamespace(node="conv", request="int16", reason="no room")


class Net:
    """A network whose stages are there already; ``refusal`` is raised in stage ``calibrate``."""

    def __init__(self, bench: Bench, clock: Any, refusal: Exception | None = None) -> None:
        self.bench = bench
        self.clock, self.refusal, self.asked = clock, refusal, []
        use = SimpleNamespace(evaluation=SimpleNamespace(split="evaluation"))
        self.card = SimpleNamespace(dataset=use)

    def stage(self) -> None:
        with self.clock.stage("calibrate"):
            if self.refusal is not None:
                raise self.refusal

    def collect_statistics(self, settings: list[Settings]) -> str:
        self.stage()
        self.asked.append(settings)
        return "key"

    def float_outputs(self) -> None:
        self.asked.append("floats")

    def trial(self, statistics: str) -> tuple[dict[Any, Any], tuple[str, ...]]:
        assert statistics == "statistics"
        self.stage()
        assert GIVEN.accuracy is not None
        assert GIVEN.fidelity is not None
        scored = Scored(GIVEN.accuracy, GIVEN.fidelity, {"per_sample": fakes.hits(3)})
        placement = SimpleNamespace(refusals=[UNMET])
        found: dict[Any, Any] = {SCORED: scored, FOOTPRINT: GIVEN.footprint, NODES: fakes.NODES, PLACEMENT: placement}
        found |= {DATASET: SimpleNamespace(split=lambda name: None), DOUBTS: ("few",), BROKEN: BROKEN_OUTPUTS}
        return found | {item: {} for item in (DATA_DIGESTS, FLOAT_DIGESTS, MODEL_DIGESTS)}, ("conv",)


@pytest.fixture
def nets(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """``refusal`` to raise, and the ``last`` network."""
    found: dict[str, Any] = {"refusal": None}

    def make(spec: object, bench: Bench, clock: Any) -> Net:
        found["last"] = Net(bench, clock, found["refusal"])
        return found["last"]

    monkeypatch.setattr(pipeline, "Network", make)
    monkeypatch.setattr(pipeline, "trial_files", lambda *_: {})
    monkeypatch.setattr(pipeline, "render_trial", lambda *_: b"page")
    return found


def test_a_trial_s_figures_are_kept(nets: dict[str, Any], tmp_path: Path) -> None:
    spec, bench = fakes.spec(), Bench(tmp_path)
    found = run_trial(spec, "statistics", bench)
    assert (found.accuracy, found.fidelity, found.footprint) == (GIVEN.accuracy, GIVEN.fidelity, GIVEN.footprint)
    assert found.int16_nodes == ("conv",)
    assert found.unmet == (UnmetRequest(node="conv", request="int16", reason="no room"),)
    assert (found.doubts, found.broken) == (("few",), BROKEN_OUTPUTS)
    assert found.warnings == ("calibration data: few", "Output y is broken.")
    assert list(found.seconds) == ["calibrate"]
    assert found.peak_memory_mb is not None
    assert 10 < found.peak_memory_mb < 100_000
    kept = bench.store.get(spec)
    assert kept is not None
    assert kept.accuracy == GIVEN.accuracy
    assert not bench.journal(spec.key).exists()


@pytest.mark.parametrize(
    ("engine", "footprint", "unmet"),
    [(Engine.BUNDLED, True, 1), (Engine.HB_MAPPER, True, 0), (Engine.ONNXRUNTIME, False, 0)],
)
def test_what_an_engine_does_not_give_is_not_asked_for(
    nets: dict[str, Any], tmp_path: Path, engine: Engine, footprint: bool, unmet: int
) -> None:
    found = run_trial(fakes.spec(settings=Settings(engine=engine)), "statistics", Bench(tmp_path))
    assert (found.footprint is not None, len(found.unmet)) == (footprint, unmet)


@pytest.mark.parametrize(
    ("error", "symptom"),
    [(UnsupportedError("not\n today"), Symptom.REFUSED), (MissingError("not today"), Symptom.ENVIRONMENT)],
)
def test_a_refusal_is_a_failure_of_its_stage(
    nets: dict[str, Any], tmp_path: Path, error: Exception, symptom: Symptom
) -> None:
    nets["refusal"] = error
    spec, bench = fakes.spec(), Bench(tmp_path)
    expected = Failure(stage="calibrate", symptom=symptom, message="not today")
    assert run_trial(spec, "statistics", bench).failure == expected
    prepared = prepare(Preparation(specs=(spec,)), bench)
    assert (prepared.failure, prepared.statistics) == (expected, None)
    assert not list((tmp_path / "running").iterdir())


def test_what_trials_share_is_prepared_once(nets: dict[str, Any], tmp_path: Path) -> None:
    specs = (fakes.spec(), fakes.spec(settings=fakes.KL))
    prepared = prepare(Preparation(specs=specs), Bench(tmp_path))
    assert (prepared.statistics, prepared.failure, list(prepared.seconds)) == ("key", None, ["calibrate"])
    assert nets["last"].asked == [[Settings(), fakes.KL], "floats"]
