"""Sessions under load, a little of it; ``python -m tests.faults.sessions`` does all."""

from __future__ import annotations

import numpy as np
import pytest

from engine.simulate import Session
from tests.faults.sessions import MODEL, digest, feed_of, processes_agree, run_once, threads_agree


def test_eight_threads_on_one_session_get_the_bits_of_one() -> None:
    assert threads_agree(Session(MODEL), 8, 40)


@pytest.mark.nightly
def test_a_spawned_process_gets_the_same_bits() -> None:
    assert processes_agree("spawn")


def test_other_feeds_give_other_bits() -> None:
    session = Session(MODEL)
    assert digest(session.run(feed_of(session, 0))) == run_once(0)
    assert run_once(0) != run_once(1)
    feed = {name: np.zeros_like(array) for name, array in feed_of(session, 0).items()}
    assert digest(session.run(feed)) == digest(session.run(feed))
