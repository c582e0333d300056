"""What the original answered about drawn networks, beside the schedules that the compiler makes of them."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from research.draws import WHOLE, latency_draw
from research.overheads import MeasuredPart, latency_us, traffic_bytes
from research.ranking import ordering_text

FOLDER = Path(__file__).parent / "data"
"""Answers by march; those of the folder ``waiting`` take part in no fit yet."""
APART_FILES = tuple(
    FOLDER / f"apart{suffix}.jsonl"
    for suffix in (
        "",
        "_4130",
        "_4131",
        "_4132",
        "_4133",
        "_4134",
        "_4135",
        "_4136",
        "_4137",
        "_4138",
        "_4139",
        "_4140",
        "_4145",
        "_4150",
        "_4155",
        "_4160",
        "_4165",
        "_4170",
        "_4175",
        "_4180",
        "_4185",
        "_4190",
        "_4195",
        "_4200",
    )
)
"""Answers on whole networks of other seeds, which take part in no fit."""
LEAST = 5
"""Answers of a march from which on they take part in its fit: a few layers move constants at random."""
_WEIGHT = 0.03
"""Of a layer or block against a deployed network: there are many of them, and most show what few networks have."""
_NETWORK_WEIGHT = 0.4
"""Of a network of the hunt's grammar, which is small."""
_WORST = 10
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
        """Whether it is a whole network."""
        return self.asked.family in WHOLE

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
    return list(converted(answer for answer in asked if answer.subgraphs)), len(asked)


def read_apart(*files: Path) -> list[Answered]:
    """The networks of ``files`` (all by default) that take part in no fit, of all marches.

    Raises:
        ConfigError: the file is damaged.
    """
    found = (answer for file in files or APART_FILES for answer in read_asked(file))
    return list(converted(answer for answer in found if answer.subgraphs))


def converted(asked: Iterable[AskedDraw]) -> Iterator[Answered]:
    """Those of which there are as many subgraphs here, with their schedules."""
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
    """Of our subgraphs, at the level and on the cores that were asked; none where it cannot be converted here."""
    item = latency_draw(*answer.key)
    requests = {name: NodeInfo.model_validate(wanted) for name, wanted in item.requests.items()}
    options = CompileOptions(optimize_level=answer.level, core_num=answer.cores)
    with tempfile.TemporaryDirectory(prefix="latency-") as folder:
        write_asked(item, Path(folder))
        try:
            result = check(Path(folder) / "net.onnx", Draft(item.march, node_info=requests, compile=options))
        except PtqlabError:
            return ()
    return result.compiled.schedules


def as_parts(answers: Iterable[Answered], *, fused: bool = True) -> list[MeasuredPart]:
    """Answers at O2 and O3, or at O0, as what the second step of the fit takes.

    Single layers and blocks are none where there are but a few; the subgraphs of whole networks count one by one.
    """
    wanted = [each for each in answers if each.asked.latency_us and _takes_part(each, fused)]
    blocks = [each for each in wanted if not each.is_network]
    rows = (MeasuredPart.of_row(each.asked.latency_us, *each.schedules) for each in blocks)
    parts = [replace(row, weight=_WEIGHT) for row in rows] if len(blocks) >= LEAST else []
    return [*parts, *(part for each in wanted if each.is_network for part in _subgraphs(each))]


def _takes_part(answer: Answered, fused: bool) -> bool:
    return answer.is_fused if fused else answer.is_network and answer.asked.level is OptimizeLevel.O0


def _subgraphs(answer: Answered) -> Iterator[MeasuredPart]:
    for figures, schedule in zip(answer.asked.subgraphs, answer.schedules, strict=True):
        part = MeasuredPart.of_row(figures.latency_us, schedule)
        yield replace(part, weight=_NETWORK_WEIGHT, whole_us=answer.asked.latency_us)


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
    found = errors_of_answers(answers, latency).summary() if answers else "-"
    return f"{label:24} {len(answers):4} {found}"


def errors_of_answers(answers: Sequence[Answered], latency: Latency) -> Errors:
    """Relative errors of latencies and of traffic."""
    times = [abs(_error(each, latency)) for each in answers]
    bytes_ = [abs(traffic_bytes(each.schedules, latency) / each.asked.ddr_bytes - 1) for each in answers]
    return Errors(np.asarray(times), np.asarray(bytes_))


def apart_report(answers: Sequence[Answered], data: Callable[[str], Latency]) -> str:
    """The errors on networks that take part in no fit, by seed, march and level, and the pairs that are ordered
    rightly.
    """
    lines = [f"{'networks of no fit':24} nets {'latency: median':>9} {'p90':>7} {'DDR: median':>7} {'p90':>6}"]
    for seed, march, level in sorted({_group(each) for each in answers}):
        own = [each for each in answers if _group(each) == (seed, march, level)]
        known = [(each.asked.latency_us, latency_us(each.schedules, data(march))) for each in own]
        lines.append(f"{_line(f'{seed} {march} {level.value}', own, data(march))}; {ordering_text(known)}")
    worst = sorted(answers, key=lambda each: -abs(_error(each, data(each.asked.march))))[:_WORST]
    lines += [_worst_line(each, data(each.asked.march)) for each in worst]
    return "\n".join([*lines, ""])


def _group(answer: Answered) -> tuple[int, str, OptimizeLevel]:
    return answer.asked.seed, answer.asked.march, answer.asked.level


def _error(answer: Answered, latency: Latency) -> float:
    return latency_us(answer.schedules, latency) / answer.asked.latency_us - 1


def _worst_line(answer: Answered, latency: Latency) -> str:
    asked = answer.asked
    ddr = traffic_bytes(answer.schedules, latency) / asked.ddr_bytes - 1
    return (
        f"  {asked.march} {asked.level.value} {asked.seed}-{asked.index:<3} {asked.latency_us:8.1f} us "
        f"({_error(answer, latency):+6.1%}); {asked.ddr_bytes:8} bytes ({ddr:+6.1%})"
    )
