"""Children: when one is used again, and what a task is told of one that died."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.execution import isolation
from harness.execution.isolation import Child, ChildPool, _cause_of_death, _explained, _last_stage, _Limit
from harness.execution.task import Reply, Task
from harness.trials.tasks import Bench
from harness.trials.trial import Failure, Symptom
from tests.harness import fakes


def task(folder: Path, model: str = "net", **options: Any) -> Task:
    return Task(
        key="key",
        workdir=str(folder),
        stages="tests.harness.fakes",
        threads=1,
        spec=fakes.spec(model),
        **options,
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (3, "the process that computed it ended with exit code 3"),
        (0, "the process that computed it ended with exit code 0"),
        (-signal.SIGKILL, "the process that computed it was killed (SIGKILL): out of memory, or killed by a user"),
        (-signal.SIGSEGV, "the process that computed it crashed (SIGSEGV)"),
    ],
)
def test_causes_of_death(code: int, message: str) -> None:
    assert _cause_of_death(code) == message


class TestExplanation:
    def journal(self, folder: Path, stage: str) -> Path:
        path = Bench(folder).journal("key")
        path.parent.mkdir(parents=True)
        path.write_text(stage)
        return path

    def test_an_error_is_a_failure_of_the_stage_in_the_journal(self, tmp_path: Path) -> None:
        journal = self.journal(tmp_path, "quantize")
        found = _explained(Reply(error="ValueError: x", symptom=Symptom.ENVIRONMENT), task(tmp_path))
        expected = Failure(stage="quantize", symptom=Symptom.ENVIRONMENT, message="ValueError: x")
        assert found == Reply(failure=expected)
        assert not journal.exists()

    def test_a_result_is_left_as_it_is(self, tmp_path: Path) -> None:
        reply = Reply(result=fakes.result(fakes.spec()))
        journal = self.journal(tmp_path, "quantize")
        assert _explained(reply, task(tmp_path)) is reply
        assert journal.exists()

    def test_without_a_journal_it_was_at_its_start(self, tmp_path: Path) -> None:
        assert _last_stage(task(tmp_path)) == "start"
        self.journal(tmp_path, "")
        assert _last_stage(task(tmp_path)) == "start"


class Stub:
    """A child in name only."""

    made = 0

    def __init__(self, replies: list[Reply | None] | None = None, code: str = "") -> None:
        Stub.made += 1
        self.code = code
        self.usable, self.killed, self.replies = True, False, replies

    def serves(self, code: str) -> bool:
        return self.code == code

    def run(self, task: Task) -> Reply | None:
        reply = self.replies.pop(0) if self.replies else None
        self.usable = reply is not None
        return reply

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def stubs(monkeypatch: pytest.MonkeyPatch) -> list[list[Reply | None]]:
    """Replies of the children that are made, in turn; without a list for one, it ends at its start."""
    given: list[list[Reply | None]] = []
    Stub.made = 0
    monkeypatch.setattr(isolation, "Child", lambda code="", ahead="": Stub(given.pop(0) if given else None, code))
    return given


class TestPool:
    DONE = Reply(result=fakes.result(fakes.spec()))

    def test_a_child_is_used_again(self, tmp_path: Path, stubs: list[list[Reply | None]]) -> None:
        stubs.append([self.DONE, self.DONE])
        pool = ChildPool()
        assert [pool.run(task(tmp_path)), pool.run(task(tmp_path))] == [self.DONE, self.DONE]
        assert Stub.made == 1

    def test_children_begun_before_serve_the_first_tasks(self, tmp_path: Path, stubs: list[list[Reply | None]]) -> None:
        stubs += [[self.DONE], [self.DONE]]
        pool = ChildPool()
        pool.begin(2, "tests.harness.fakes")
        pool.begin(2, "tests.harness.fakes")
        assert Stub.made == 2
        assert pool.run(task(tmp_path)) == self.DONE
        assert Stub.made == 2

    def test_two_children_may_end_at_their_start(self, tmp_path: Path, stubs: list[list[Reply | None]]) -> None:
        stubs += [[None], [None], [self.DONE]]
        assert ChildPool().run(task(tmp_path)) == self.DONE
        assert Stub.made == 3

    def test_a_third_is_a_failure(self, tmp_path: Path, stubs: list[list[Reply | None]]) -> None:
        found = ChildPool().run(task(tmp_path))
        expected = Failure(stage="start", symptom=Symptom.WORKER_DIED, message="3 child processes ended while starting")
        assert found == Reply(failure=expected)
        assert Stub.made == 3

    def test_a_kill_begins_no_other_child(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pool = ChildPool()

        class Killer(Stub):
            def run(self, task: Task) -> Reply | None:
                pool.kill()
                return None

        children = [Killer()]
        monkeypatch.setattr(isolation, "Child", lambda code: children.pop())
        assert pool.run(task(tmp_path)).failure is not None
        assert children == []


def test_a_limit_strikes_unless_it_is_cancelled() -> None:
    struck: list[str] = []
    late, early, never = (_Limit(seconds, lambda: struck.append("x")) for seconds in (0.01, 30.0, None))
    early.cancel()
    never.cancel()
    deadline = time.monotonic() + 10
    while not struck and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (struck, late.reached, early.reached, never.reached) == (["x"], True, False, False)


class TestChild:
    @pytest.fixture
    def child(self) -> Iterator[Child]:
        started = Child()
        yield started
        started.kill()

    @pytest.mark.parametrize("ahead", ["tests.harness.fakes", "no.such.module"])
    def test_what_it_imports_before_does_not_matter(self, ahead: str, tmp_path: Path) -> None:
        started = Child(ahead=ahead)
        try:
            reply = started.run(task(tmp_path))
        finally:
            started.kill()
        assert reply is not None
        assert reply.result is not None

    def test_it_serves_what_finds_the_same_things(self, child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
        assert child.serves("")
        assert not child.serves("code")
        monkeypatch.setenv("PTQLAB_SUITES", "/elsewhere")
        assert not child.serves("")

    def test_it_serves_so_many_tasks(self, child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(isolation, "TASKS_PER_CHILD", 2)
        replies = []
        for usable in (True, False):
            replies.append(child.run(task(tmp_path)))
            assert child.usable is usable
        assert [reply is not None and reply.result is not None for reply in replies] == [True, True]
        child.kill()
        assert child.run(task(tmp_path)) is None  # it ended before it began

    def test_one_that_ran_out_of_memory_is_not_used_again(self, child: Child, tmp_path: Path) -> None:
        reply = child.run(task(tmp_path, "hungry"))
        assert reply is not None
        assert (reply.symptom, child.usable) == (Symptom.OUT_OF_MEMORY, False)

    def test_one_that_takes_too_long_is_killed(self, child: Child, tmp_path: Path) -> None:
        reply = child.run(task(tmp_path, "hanging", time_limit=1.5))
        assert reply is not None
        expected = Failure(stage="", symptom=Symptom.TIMED_OUT, message="took longer than 1.5 s and was killed")
        assert (reply.failure, child.usable) == (expected, False)
