"""Progress of a command: lines where there is no terminal, with the time left."""

from __future__ import annotations

import pytest

from engine.cli.progress import _Lines, in_words, watched


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.4, "4 s"), (89, "89 s"), (91, "2 min"), (3600, "60 min"), (6000, "1 h 40 min")]
)
def test_times_for_people(seconds: float, text: str) -> None:
    assert in_words(seconds) == text


def test_lines_come_now_and_then_with_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    lines = _Lines("sensitivity", lambda: now[0])
    for at, share in ((1.0, 0.01), (10.0, 0.1), (20.0, 0.2), (45.0, 0.5), (90.0, 1.0)):
        now[0] = at
        lines(share)
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [
        "sensitivity: 10% done, about 2 min left",
        "sensitivity: 50% done, about 45 s left",
    ]
    assert printed.out == "", "standard output is the result's"


def test_without_a_terminal_nothing_is_printed_of_what_ends_soon(capsys: pytest.CaptureFixture[str]) -> None:
    with watched("a moment") as watch:
        watch(0.5)
    assert capsys.readouterr() == ("", "")
