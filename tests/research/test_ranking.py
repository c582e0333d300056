"""Pairs of networks that estimates put in the right order."""

from __future__ import annotations

from research.ranking import ordered_pairs, ordering_text


def test_only_pairs_that_differ_by_more_than_a_tenth_count() -> None:
    assert ordered_pairs([(100.0, 90.0), (109.0, 80.0)]) == (0, 0)
    assert ordered_pairs([(100.0, 90.0), (111.0, 95.0), (200.0, 94.0)]) == (2, 3)
    assert ordered_pairs([(100.0, 90.0), (200.0, 90.0)]) == (0, 1)  # equal estimates decide nothing


def test_the_share_is_told() -> None:
    assert ordering_text([(1.0, 1.0), (2.0, 2.0)]).endswith("100.0% of 1")
    assert ordering_text([]).endswith("- of 0")
