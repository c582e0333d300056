"""Answers of the original beside our schedules of the same draws."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.chips.latency import load_latency
from engine.terms import OptimizeLevel
from research.answers import (
    APART_FILES,
    FOLDER,
    LEAST,
    Answered,
    apart_report,
    as_parts,
    asked_report,
    read_answers,
    read_apart,
)
from research.asking import AskedDraw, AskedSubgraph, read_asked
from research.draws import APART, SEED, WHOLE, latency_draw

MOST_BYTES = 20_000_000


def answer(family: str, level: OptimizeLevel, subgraphs: int = 1) -> AskedDraw:
    figures = AskedSubgraph(latency_us=20.0, loaded=1000, stored=500)
    return AskedDraw(family=family, index=0, march="bayes-e", level=level, cores=1, subgraphs=(figures,) * subgraphs)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pool = latency_draw("pool", 0, "bayes-e").level
    lines = [answer("pool", pool), answer("resize", OptimizeLevel.O2, 7)]
    failed = AskedDraw(family="conv", index=0, march="bayes-e", level=OptimizeLevel.O2, cores=1, failure="no")
    text = "".join(line.model_dump_json(exclude_defaults=True) + "\n" for line in [*lines, failed])
    (tmp_path / "bayes-e.jsonl").write_text(text)
    return tmp_path


def test_answers_count_where_the_subgraphs_are_the_same(folder: Path) -> None:
    answers, count = read_answers("bayes-e", folder)
    assert (count, [each.asked.family for each in answers]) == (3, ["pool"])
    assert as_parts(answers) == []  # too few to say anything
    assert len(as_parts(answers * LEAST)) == LEAST
    report = asked_report(answers, count, load_latency("bayes-e"))
    assert report.startswith("asked of the original: 3 draws, 1 with the same subgraphs here")
    assert "pool                        1" in report
    assert read_answers("bayes", folder) == ([], 0)


def test_networks_count_subgraph_by_subgraph_and_by_level() -> None:
    """Those at O2 beside single layers, those at O0 for what layers cost between which nothing stays on the chip."""
    figures = (
        AskedSubgraph(latency_us=20.0, loaded=1000, stored=500),
        AskedSubgraph(latency_us=5.0, loaded=1, stored=1),
    )
    found = [
        Answered(
            AskedDraw(family=family, index=0, march="bayes-e", level=level, cores=1, subgraphs=figures),
            ((), ()),  # type: ignore[arg-type]  # schedules are handed on unread
        )
        for family, level in WHOLE.items()
    ]
    for fused in (True, False):
        parts = as_parts(found, fused=fused)
        assert [part.measured_us for part in parts] == [20.0, 5.0]
        assert {part.whole_us for part in parts} == {25.0}


def test_networks_of_no_fit_are_told_by_march_and_level_with_the_worst(folder: Path) -> None:
    answers = read_apart(folder / "bayes-e.jsonl")
    report = apart_report(answers, load_latency)
    assert report.splitlines()[1].startswith(f"{SEED} bayes-e {answers[0].asked.level.value}")
    assert "ordered rightly: - of 0" in report
    assert report.splitlines()[-1].startswith(f"  bayes-e {answers[0].asked.level.value} {SEED}-0")


def test_what_is_kept_apart_is_of_another_seed() -> None:
    kept = [answer for file in APART_FILES for answer in read_asked(file)]
    assert {answer.seed for answer in kept} == APART
    assert {answer.family for answer in kept} == set(WHOLE)
    assert {answer.march for answer in kept} == {"bayes-e", "bayes", "bernoulli2"}
    fitted = [answer for file in FOLDER.glob("b*.jsonl") for answer in read_asked(file)]
    assert {answer.seed for answer in fitted} == {SEED}


def test_what_is_kept_is_small_and_of_draws_that_are_drawn_alike() -> None:
    files = sorted(FOLDER.rglob("*.jsonl"))
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    for file in files:
        for asked in read_asked(file)[::40]:
            item = latency_draw(*asked.key)
            assert (item.level, item.cores) == (asked.level, asked.cores)
            assert file in APART_FILES or asked.march == file.stem
        assert all(json.loads(line) for line in file.read_text().splitlines())
