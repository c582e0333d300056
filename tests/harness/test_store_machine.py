"""The store of trials under any history of writes, crashes at any moment and reads: whole results or none."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from harness.trials import trial as trials
from harness.trials.trial import Outcome, TrialResult, TrialStore
from tests.harness import fakes

MODELS = ("a", "b", "c")


class CrashError(BaseException):
    """The process ends here: nothing after it runs, not even clean-up."""


class StoreMachine(RuleBasedStateMachine):
    """A model of the store: by trial, the results that may be found there."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.store = TrialStore(self.root / "trials")
        self.possible: dict[str, list[TrialResult | None]] = {model: [None] for model in MODELS}

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @rule(model=st.sampled_from(MODELS), value=st.floats(0, 1), good=st.booleans())
    def put(self, model: str, value: float, good: bool) -> None:
        """A trial finishes."""
        outcome = self.outcome(model, value, good)
        self.store.put(outcome)
        self.possible[model] = [outcome.result]

    @rule(model=st.sampled_from(MODELS), value=st.floats(0, 1), step=st.integers(0, 7))
    def put_and_die(self, model: str, value: float, step: int) -> None:
        """The process is killed before its file operation number ``step``: the old result, the new one, or none."""
        outcome = self.outcome(model, value, good=True)
        with crash_before(step):
            try:
                self.store.put(outcome)
                self.possible[model] = [outcome.result]
            except CrashError:
                self.possible[model] = [*self.possible[model], None, outcome.result]

    @rule()
    def open_again(self) -> None:
        """Another process looks."""
        self.store = TrialStore(self.root / "trials")

    @invariant()
    def results_are_whole(self) -> None:
        """What is found was put there, with all its files."""
        for model, possible in self.possible.items():
            spec = fakes.spec(model)
            found = self.store.get(spec)
            assert found in possible
            self.possible[model] = [found]  # reading changes nothing: from now on it is this one
            if found is not None and found.ok:
                assert len(self.store.nodes(spec.key)) == len(fakes.NODES)
                assert len(self.store.predictions(spec.key)["per_sample"]) == fakes.SAMPLES

    @staticmethod
    def outcome(model: str, value: float, good: bool) -> Outcome:
        """Of a trial that gave ``value``, or failed."""
        spec = fakes.spec(model)
        if not good:
            return Outcome(fakes.failed(spec))
        return Outcome(fakes.result(spec, value=value), fakes.NODES, {"per_sample": fakes.hits(36)})


@contextmanager
def crash_before(step: int) -> Iterator[None]:
    """Inside, the file operation number ``step`` of the store and all later ones raise instead of happening."""
    count = itertools.count()

    def mortal(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if next(count) >= step:
                raise CrashError
            return operation(*arguments, **options)

        return call

    with ExitStack() as patches:
        for owner, name in _OPERATIONS:
            patches.enter_context(mock.patch.object(owner, name, mortal(getattr(owner, name))))
        yield


_OPERATIONS = (
    (trials.tempfile, "mkdtemp"),
    (trials, "write_sums"),
    (trials, "save_arrays"),
    (trials.os, "rename"),
    (trials.shutil, "rmtree"),
)


TestStore = StoreMachine.TestCase
