"""The files of a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.files import paths
from harness.sweeps.written import load_sweep, write_sweep
from harness.trials.trial import Outcome, TrialStore
from tests.harness import fakes, finished


def test_a_sweep_that_is_read_brings_the_cards_of_its_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``ptqlab model`` and ``why`` know the cards of a network that was swept without any of the user's own."""
    monkeypatch.delenv("PTQLAB_SUITES", raising=False)
    monkeypatch.delenv("PTQLAB_DATASETS", raising=False)
    (tmp_path / "own/zoo").mkdir(parents=True)
    result = fakes.result(fakes.spec())
    TrialStore(tmp_path / "trials").put(Outcome(result, fakes.NODES, {"per_sample": fakes.hits(36)}))
    write_sweep(finished.sweep((result,), None, asked=str(tmp_path / "own/net.yaml")), tmp_path)
    assert paths.suites()[:-1] == ()
    load_sweep(tmp_path, finished.suite().name)
    assert paths.suites()[:-1] == (tmp_path / "own",)
