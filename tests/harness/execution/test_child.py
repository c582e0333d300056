"""The process that computes tasks: what it calls, and what it makes of exceptions."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

from engine.errors import MissingError, UnsupportedError
from harness.execution.child import _answer_on, _compute, _symptom
from harness.execution.isolation import CHILD, STARTED
from harness.execution.task import Reply, Task
from harness.trials.tasks import Preparation
from harness.trials.trial import Symptom
from tests.harness import fakes


def task(folder: Path, model: str = "net", **options: object) -> Task:
    return Task(key="key", workdir=str(folder), stages="tests.harness.fakes", threads=1, **options)  # type: ignore[arg-type]


def test_a_task_with_a_trial_runs_it_and_another_prepares(tmp_path: Path) -> None:
    trial = fakes.spec()
    assert _compute(task(tmp_path, spec=trial)).result == fakes.result(trial)
    prepared = _compute(task(tmp_path, preparation=Preparation(specs=(trial,))))
    assert prepared.prepared is not None
    assert prepared.prepared.statistics == "statistics"
    assert fakes.notes(tmp_path) == [f"run {trial.id}", f"prepare {trial.model}"]


@pytest.mark.parametrize(
    ("error", "symptom"),
    [
        (MemoryError(), Symptom.OUT_OF_MEMORY),
        (RuntimeError("std::bad_alloc"), Symptom.OUT_OF_MEMORY),
        (RuntimeError("Bad allocation"), Symptom.OUT_OF_MEMORY),
        (RuntimeError("x: Failed to allocate memory for requested buffer"), Symptom.OUT_OF_MEMORY),
        (OSError("Failed to allocate memory"), Symptom.OUT_OF_MEMORY),
        (FileNotFoundError("no file"), Symptom.ENVIRONMENT),
        (MissingError("no torch"), Symptom.ENVIRONMENT),
        (ImportError("no torch"), Symptom.ENVIRONMENT),
        (ZeroDivisionError("a defect"), Symptom.DEFECT),
        (UnsupportedError("not today"), Symptom.DEFECT),
    ],
)
def test_symptoms_of_exceptions(error: Exception, symptom: Symptom) -> None:
    assert _symptom(error) is symptom


def test_a_reply_is_one_line_whatever_the_exception_says() -> None:
    done: Future[Reply] = Future()
    done.set_exception(ValueError("first\n  second"))
    replies = io.StringIO()
    _answer_on(replies)(done)
    (line,) = replies.getvalue().splitlines()
    assert Reply.model_validate_json(line) == Reply(error="ValueError: first second", symptom=Symptom.DEFECT)


def test_a_child_answers_line_by_line_and_ends_with_its_parent(tmp_path: Path) -> None:
    """What the task prints is no reply; the end of the input ends the process and its group."""
    child = subprocess.Popen(
        CHILD,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(task(tmp_path, spec=fakes.spec()).model_dump_json() + "\n")
    child.stdin.flush()
    assert child.stdout.readline() == STARTED + "\n"
    assert json.loads(child.stdout.readline())["result"]["spec"]["model"] == "net"
    oom = Path(f"/proc/{child.pid}/oom_score_adj")
    assert not oom.exists() or oom.read_text().strip() == "1000"
    child.stdin.close()
    assert child.wait(30) == -signal.SIGKILL


def test_a_child_whose_parent_is_killed_ends_without_a_word(tmp_path: Path) -> None:
    """Its replies can no longer be read, while the task that it was told of is still there."""
    reading, writing = os.pipe()
    child = subprocess.Popen(
        CHILD,
        stdin=subprocess.PIPE,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    os.close(reading)
    os.close(writing)
    assert child.stdin is not None
    child.stdin.write(task(tmp_path, spec=fakes.spec()).model_dump_json() + "\n")
    child.stdin.flush()
    assert child.stderr is not None
    assert child.stderr.read() == ""
    assert child.wait(30) == -signal.SIGKILL
