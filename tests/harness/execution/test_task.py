"""Tasks and replies: JSON on both ways."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from harness.execution.task import Reply, Task
from harness.trials.trial import Failure, Symptom


def test_a_task_comes_back_from_json() -> None:
    task = Task(key="0a1b", workdir="/results", stages="harness.execution.pipeline", threads=2, time_limit=1.5)
    assert Task.model_validate_json(task.model_dump_json()) == task
    assert task.code == ""


def test_a_field_of_another_version_is_refused() -> None:
    with pytest.raises(ValidationError, match="colour"):
        Task.model_validate({"key": "", "workdir": "", "stages": "", "threads": 1, "colour": "red"})


def test_a_reply_comes_back_from_json() -> None:
    reply = Reply(failure=Failure(stage="start", symptom=Symptom.WORKER_DIED, message="killed"))
    assert Reply.model_validate_json(reply.model_dump_json()) == reply
