"""What the original answered about drawn networks, beside the schedules that the compiler makes of them."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from engine.chips.latency import Latency
from engine.compile import CompileOptions
from engine.compile.schedule import Schedule
from engine.config import NodeInfo
from engine.convert import Draft, check
from engine.errors import PtqlabError
from engine.terms import OptimizeLevel
from research.asking import AskedDraw, read_asked, write_asked
from research.cases import Errors
from research.draws import NETWORKS, latency_draw
from research.overheads import MeasuredPart, latency_us, traffic_bytes
from research.ranking import ordering_text

FOLDER = Path(__file__).parent / "data"
"""Answers by march."""
LEAST = 50
"""Answers of a march from which on they take part in its fit: a few layers move constants at random."""
_WEIGHT = 0.1
"""Of an answer against a network: there are many of them, and most show what few networks have."""
_FUSED = (OptimizeLevel.O2, OptimizeLevel.O3)


@dataclass(frozen=True)
class Answered:
    """One draw.

    Attributes:
        asked: what the original says.
        schedules: of our BPU subgraphs.
    """

    asked: AskedDraw
    schedules: tuple[Schedule, ...]

    @property
    def is_network(self) -> bool:
        """Whether it is a whole network, which takes part in no fit."""
        return self.asked.family == NETWORKS

    @property
    def is_fused(self) -> bool:
        """Whether its layers run together, on one core."""
        return self.asked.level in _FUSED and self.asked.cores == 1


def read_answers(march: str, folder: Path = FOLDER) -> tuple[list[Answered], int]:
    """The draws of ``march`` that the original answered and that have as many subgraphs here; how many were asked.

    Raises:
        ConfigError: the file is damaged.
    """
    asked = read_asked(folder / f"{march}.jsonl")
    return list(_converted(answer for answer in asked if answer.subgraphs)), len(asked)


def _converted(asked: Iterable[AskedDraw]) -> Iterable[Answered]:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        for answer in asked:
            schedules = _schedules(answer)
            if len(schedules) == len(answer.subgraphs):
                yield Answered(answer, schedules)
    finally:
        logging.disable(before)


def _schedules(answer: AskedDraw) -> tuple[Schedule, ...]:
    """Of our subgraphs; none where the network cannot be converted here."""
    item = latency_draw(*answer.key)
    requests = {name: NodeInfo.model_validate(wanted) for name, wanted in item.requests.items()}
    options = CompileOptions(optimize_level=item.level, core_num=item.cores)
    with tempfile.TemporaryDirectory(prefix="latency-") as folder:
        write_asked(item, Path(folder))
        try:
            result = check(Path(folder) / "net.onnx", Draft(item.march, node_info=requests, compile=options))
        except PtqlabError:
            return ()
    return result.compiled.schedules


def as_parts(answers: Iterable[Answered]) -> list[MeasuredPart]:
    """Answers at O2 and O3 that are no whole networks, as what the second step of the fit takes; none of a few."""
    wanted = [each for each in answers if each.is_fused and not each.is_network and each.asked.latency_us]
    rows = (MeasuredPart.of_row(each.asked.latency_us, *each.schedules) for each in wanted)
    parts = [replace(row, weight=_WEIGHT) for row in rows]
    return parts if len(parts) >= LEAST else []


def left_out_families(answers: Sequence[Answered]) -> Iterator[tuple[str, list[Answered], list[Answered]]]:
    """Each family of draws: its name, its draws, and all others."""
    for family in sorted({each.asked.family for each in answers}):
        own = [each for each in answers if each.asked.family == family]
        yield family, own, [each for each in answers if each.asked.family != family]


def asked_report(answers: Sequence[Answered], count: int, latency: Latency) -> str:
    """The errors on answers by family: what is fused takes part in the fit, but for whole networks.

    Args:
        answers: of one march.
        count: how many draws were asked.
        latency: the march's data.
    """
    lines = [f"asked of the original: {count} draws, {len(answers)} with the same subgraphs here"]
    lines.append(f"{'family':24} rows {'latency: median':>9} {'p90':>7} {'DDR: median':>7} {'p90':>6}")
    for family, own, _ in left_out_families(answers):
        lines.append(_line(family, own, latency))
    for label, fused in (("all at O2 and O3", True), ("all at O0 and O1", False)):
        lines.append(_line(label, [each for each in answers if each.is_fused is fused], latency))
    known = [(each.asked.latency_us, latency_us(each.schedules, latency)) for each in answers if each.is_fused]
    lines.append(ordering_text(known))
    return "\n".join([*lines, ""])


def _line(label: str, answers: Sequence[Answered], latency: Latency) -> str:
    if not answers:
        return f"{label:24}    0 -"
    times = [abs(latency_us(each.schedules, latency) / each.asked.latency_us - 1) for each in answers]
    bytes_ = [abs(traffic_bytes(each.schedules, latency) / each.asked.ddr_bytes - 1) for each in answers]
    return f"{label:24} {len(answers):4} {Errors(np.asarray(times), np.asarray(bytes_)).summary()}"
