"""The table of what the documents promise: every row has a status and a test that exists."""

from __future__ import annotations

import re
from collections import Counter

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "evidence" / "conformance_documents.md").read_text(encoding="utf-8")
ROWS = [re.split(r" *(?<!\\)\| *", line)[1:-1] for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]
STATUSES = ("works", "works as extrapolated, nothing measured", "refused")
PROMISES = 278
"""Rows of the audit that the table answers."""


def test_every_promise_has_a_row_and_a_status() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, PROMISES + 1))
    for number, _, _, status, tests, remark in ROWS:
        assert status in STATUSES, number
        assert tests, number
        assert remark or status != "refused", number


def test_every_test_that_is_named_exists() -> None:
    for number, *_, tests, _ in ROWS:
        for name in re.findall(r"`([^`]+)`", tests):
            file, _, function = name.partition("::")
            text = (ROOT / "tests" / file).read_text(encoding="utf-8")
            assert re.search(rf"def {function or 'test_'}", text), f"row {number}: {name}"


def test_the_counts_are_those_of_the_rows() -> None:
    found = Counter((row[1], row[3]) for row in ROWS)
    for document in sorted({row[1] for row in ROWS}):
        (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {document}: ")]
        counts = [int(cell) for cell in line.split("|")[2:-1]]
        assert counts == [found[document, status] for status in STATUSES], document
