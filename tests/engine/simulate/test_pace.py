"""What is worth sharing among threads, from what samples and instructions took."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.simulate.kernels.state import PATIENCE, PORTIONS
from engine.simulate.lowering.tables import look_up
from engine.simulate.pace import (
    CALLED,
    ENOUGH_WORK,
    HANDOVER,
    LEFT,
    LITTLE_WORK,
    LONG_STEP,
    TIMED,
    TRIED,
    WORTHWHILE,
    Pace,
)
from engine.simulate.program import Assembler, Program


@pytest.fixture(autouse=True)
def _samples_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.simulate.pace.TIMED", TIMED)


def chain(steps: int, size: int) -> Program:
    """A program of so many tables of several units each."""
    program = Assembler()
    y = program.input((size,), np.int8)
    for step in range(steps):
        y = look_up(y, np.roll(np.arange(-128, 128), step + 1).astype(np.int8).reshape(1, -1), program)
    program.keep(y)
    return program.finish()


def timed(program: Program, seconds: list[float], threads: int = 2) -> Pace:
    """After :data:`TIMED` samples whose steps took so long."""
    pace = Pace(program, threads)
    for _ in range(TIMED):
        assert not pace.is_known
        pace.learn_steps([CALLED + each for each in seconds])
    return pace


def test_instructions_are_shared_as_their_time_is_worth_it() -> None:
    program = chain(4, 100_000)
    pace = timed(program, [0.0, 1.9 * HANDOVER, 2.1 * HANDOVER, 1.1 * LONG_STEP])
    assert pace.is_known
    (table,) = program.parts
    assert isinstance(table, np.ndarray)
    assert table["portions"].tolist() == [0, 0, 1, PORTIONS]


def test_an_instruction_of_one_unit_is_not_shared() -> None:
    program = chain(1, 5)
    timed(program, [ENOUGH_WORK])
    (table,) = program.parts
    assert isinstance(table, np.ndarray)
    assert table["portions"].tolist() == [0]


def test_the_only_instruction_of_a_program_is_no_call_alone() -> None:
    pace = timed(chain(1, 100_000), [ENOUGH_WORK])
    assert pace.is_enough(1)


def test_one_long_sample_is_enough_to_know() -> None:
    pace = Pace(chain(1, 100_000), 2)
    pace.learn_steps([11 * ENOUGH_WORK])
    assert pace.is_known


def test_a_program_without_steps_takes_no_time() -> None:
    """Where an output is an input."""
    assert not timed(Assembler().finish(), []).is_enough(100)


def test_one_thread_has_nothing_to_learn() -> None:
    assert Pace(chain(1, 5), 1).is_known


@pytest.mark.parametrize(("each", "worth"), [(2.1 * HANDOVER, False), (40 * HANDOVER, True)])
def test_a_single_sample_is_shared_where_that_is_faster(each: float, worth: bool) -> None:
    pace = timed(chain(20, 100_000), [0.0, *[each] * 19])
    assert 20 * each > LITTLE_WORK
    assert pace.grant_turn(1, 0.0) == worth


def test_what_threads_take_together_takes_the_place_of_what_was_expected() -> None:
    """Where it is slower, the next calls are not shared, until it is tried again."""
    pace = timed(chain(20, 100_000), [0.0, *[40 * HANDOVER] * 19])
    alone = 19 * 40 * HANDOVER
    for _ in range(2):
        for _ in range(TRIED):
            assert pace.grant_turn(1, 0.0)
            pace.learn_together(1.01 * WORTHWHILE * alone)
        for _ in range(LEFT):
            assert not pace.grant_turn(1, 0.0)
            assert pace.grant_turn(2, 0.0), "several samples do not wait for each other"


def test_the_fastest_of_several_calls_counts() -> None:
    pace = timed(chain(20, 100_000), [0.0, *[40 * HANDOVER] * 19])
    for call in range(3 * TRIED):
        assert pace.grant_turn(1, 0.0)
        pace.learn_together(0.5 * 19 * 40 * HANDOVER if call % TRIED == 7 else 1.0)


def test_helpers_are_not_kept_awake_for_calls_that_are_far_apart() -> None:
    pace = timed(chain(2, 100_000), [0.0, 5 * LITTLE_WORK])
    assert pace.grant_turn(1, 0.9 * 5 * LITTLE_WORK)
    assert not pace.grant_turn(1, 1.1 * 5 * LITTLE_WORK)
    assert not pace.grant_turn(100, 1.1 * PATIENCE * 1e-6)
    assert not pace.grant_turn(1, math.inf)


def test_a_sample_that_took_too_long_is_corrected_by_later_ones() -> None:
    pace = timed(chain(1, 100_000), [2 * ENOUGH_WORK])
    assert pace.is_enough(1)
    pace.learn(ENOUGH_WORK / 2)
    assert not pace.is_enough(1)
    assert pace.is_enough(2)
    assert not pace.is_enough(0)
