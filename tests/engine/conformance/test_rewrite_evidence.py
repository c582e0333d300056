"""Evidence for passes: without one that a network needs, the float graph is further from the original's."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.conformance.cases import find_cases
from engine.conformance.rewrite_evidence import RewriteSubject

CASES = Path(__file__).resolve().parents[2] / "parity" / "recorded" / "means"


@pytest.fixture(scope="module")
def subject() -> RewriteSubject:
    return RewriteSubject.of(next(case for case in find_cases(CASES) if case.name == "mean_m2m1_bayes-e"))


def test_a_graph_that_is_the_original_s_agrees_in_every_node(subject: RewriteSubject) -> None:
    nodes = [node for node in subject.theirs.graph if node.op_type != "HzCalibration"]
    assert subject.agreed == len(nodes)


def test_what_is_gained_by_a_pass(subject: RewriteSubject) -> None:
    gained = subject.gained()
    assert gained["rewrite.reduce-mean-to-global-pool"] > 0
    assert set(gained.values()) >= {0}
    assert subject.gained_by("UnrollGru") == 0


def test_a_graph_that_cannot_be_placed_agrees_in_nothing(
    subject: RewriteSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.conformance import rewrite_evidence
    from engine.errors import OptimizeError

    agreed = subject.agreed

    def fails(*_: object) -> None:
        raise OptimizeError("no")

    monkeypatch.setattr(rewrite_evidence, "run_pipeline", fails)
    nodes = [node for node in subject.theirs.graph if node.op_type != "HzCalibration"]
    assert subject.gained_by("Pool1d") == agreed + len(nodes)
