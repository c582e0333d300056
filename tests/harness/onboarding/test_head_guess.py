"""A meaning of outputs."""

from __future__ import annotations

from harness.onboarding.head_guess import HeadGuess
from harness.terms import Fit
from harness.zoo.cards import TaskKind


def test_a_guess_is_sure_and_needs_nothing_unless_it_says_so() -> None:
    guess = HeadGuess("class scores", TaskKind.CLASSIFICATION, "top1", "one output")
    assert (guess.is_sure, guess.needs_labels, guess.fit) == (True, False, Fit.CROP)
    assert (dict(guess.options), dict(guess.from_metadata)) == ({}, {})
