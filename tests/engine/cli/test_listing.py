"""Rows that begin with a name, at several widths."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from engine.cli.listing import LEAST_WORDS, Listing
from engine.cli.terminal import Terminal

NAME = "/model.22/cv3.2/cv3.2.0/cv3.2.0.1/conv/Conv"
WHY = "the kernel is larger than the array " * 3


def printed(width: int, why: str = WHY, name: str = NAME, kind: type[Console] = Console) -> list[str]:
    listing = Listing("node", "on", "type", figures=("us", "DDR bytes"), words="reason")
    listing.add_row("first", "BPU 0", "HzSQuantizedConv", "12.0", "37760", "")
    listing.add_row(name, "CPU", "Softmax", "", "", why, style="yellow")
    console = kind(width=width, file=io.StringIO(), record=True)
    console.print(listing)
    return console.export_text().splitlines()


def test_where_all_fits_it_is_a_table() -> None:
    heading, first, second = printed(300)
    assert heading.split() == ["node", "on", "type", "us", "DDR", "bytes", "reason"]
    assert first.split() == ["first", "BPU", "0", "HzSQuantizedConv", "12.0", "37760"]
    assert second.rstrip().endswith(WHY.strip())
    assert second.index(WHY[:9]) == heading.index("reason")


def test_words_for_which_little_room_is_left_stand_below_their_row() -> None:
    row = len(NAME) + len("BPU 0") + len("HzSQuantizedConv") + len("12.0") + len("DDR bytes") + 4 * 2
    assert printed(row + 2 + LEAST_WORDS)[0].rstrip().endswith("reason")
    heading, reason, first, second, *words = printed(row)
    assert (heading.rstrip(), reason.strip()) == (f"{'node':43}  on     type                us  DDR bytes", "reason")
    assert first.rstrip() == f"{'first':43}  BPU 0  HzSQuantizedConv  12.0      37760"
    assert second.rstrip() == f"{NAME}  CPU    Softmax"
    assert " ".join(line.strip() for line in words) == WHY.strip()
    assert all(line.startswith("    ") for line in words)


def test_names_for_which_there_is_no_room_stand_above_their_row() -> None:
    lines = [line.rstrip() for line in printed(60)]
    assert lines[:4] == ["node", "  on     type                us  DDR bytes", "    reason", "first"]
    assert lines[4:7] == ["  BPU 0  HzSQuantizedConv  12.0      37760", NAME, "  CPU    Softmax"]
    assert max(map(len, lines)) <= 60


def test_without_words_nothing_is_said_of_them() -> None:
    lines = printed(60, why="")
    assert len(lines) == 6
    assert not any("reason" in line for line in lines)


@pytest.mark.parametrize("width", [40, 300])
def test_control_characters_of_names_are_written_out(width: int) -> None:
    text = "\n".join(printed(width, name="net\x1b]0;title\x07", kind=Terminal))
    assert "\x1b" not in text
    assert "net\\x1b]0;title\\x07" in text
