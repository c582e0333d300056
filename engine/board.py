"""What a user measured on a board: times of CPU nodes, which replace our estimates of them.

Two files are read: what ``hrt_model_exec perf --profile_path`` writes on a board (``profiler.log``; the guide's section
on performance analysis shows one), and a YAML table of milliseconds by operator type. What is read is kept per march in
a folder of the user's, with its date and the file that it is from, and used by all commands and sweeps from then on.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, Protocol

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.errors import ConfigError
from engine.ir import write_atomically
from engine.sealed import sealed, unsealed

VARIABLE = "PTQLAB_BOARDS"
"""Environment variable that names the folder of what was measured."""
MOST_BYTES = 1 << 24
"""Most bytes of a profile that is read; one has some hundred bytes per node."""
SIMULATED = "chip_latency and model_latency are estimates, task_latency is measured on the simulator; ms"
"""What our own ``hrt_model_exec`` notes in the profile that it writes, which was measured on no board."""

_ENTRY = re.compile(r'"([^"\\]*)"\s*:\s*\{\s*"avg_time"\s*:\s*([-+.\deE]+)')
"""A name and its mean. The documents' example is no valid JSON as a whole: it is cut and joined."""
_WHOLE = frozenset({"BPU_inference_time_cost", "CPU_inference_time_cost", "TaskPendingTime", "TaskRunningTime"})
"""Entries that are sums of others."""
_BPU = "BPU_"
"""What the names of BPU subgraphs begin with."""
_TYPE = re.compile(r"[A-Za-z]\w*")

Milliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # few commands read such a file


class NodeTime(_Data):
    """What one node of a network took.

    Attributes:
        ms: milliseconds per run.
        elements: of its largest tensor: a node of this name with other shapes is another one.
    """

    ms: Milliseconds
    elements: int


class TypeTime(_Data):
    """What nodes of one operator type take.

    Attributes:
        ms: milliseconds of a node, the mean of those that were measured.
        factor: what they took of our estimates for them; None where shapes are not known, so that ``ms`` stands for
            all.
    """

    ms: Milliseconds
    factor: Milliseconds | None = None


class Source(_Data):
    """Where times are from.

    Attributes:
        file: name of the file.
        date: of the day on which it was written, ISO 8601.
        entries: that were taken from it.
    """

    file: str
    date: str
    entries: int


class BoardTimes(_Data):
    """What was measured on one board.

    Attributes:
        format: version of this structure.
        board: what the user calls it.
        march: of its chip.
        sources: the files, the last one last.
        nodes: by the name that a profile gives: operator type and node.
        types: by operator type, without ``Hz``.
    """

    format: Literal[1] = 1
    board: str
    march: str
    sources: tuple[Source, ...] = ()
    nodes: Mapping[str, NodeTime] = {}
    types: Mapping[str, TypeTime] = {}

    def us(self, node: TimedNode) -> float | None:
        """Microseconds of ``node`` as measured: itself, else nodes of its type; None where neither was."""
        own = self.nodes.get(entry_name(node))
        if own is not None and own.elements == node.elements:
            return 1e3 * own.ms
        alike = self.types.get(_plain(node.op_type))
        if alike is None:
            return None
        return 1e3 * alike.ms if alike.factor is None else alike.factor * node.estimated_us

    @property
    def origin(self) -> str:
        """Board, files and dates, for people."""
        files = ", ".join(f"{source.file} of {source.date}" for source in self.sources)
        return f"{self.board} ({files})"


class TimedNode(Protocol):
    """A CPU node: what it is called, how large it is, and what it is estimated to take."""

    @property
    def name(self) -> str: ...
    @property
    def op_type(self) -> str: ...
    @property
    def elements(self) -> int: ...
    @property
    def estimated_us(self) -> float: ...


class BoardFile(_Data):
    """What a file of measurements holds; one of the two.

    Attributes:
        entries: milliseconds by entry of a profile, BPU subgraphs and sums left out.
        types: milliseconds by operator type.
        bpu_ms: of all BPU subgraphs; None where the file says nothing of them.
        source: name and date of the file.
    """

    entries: Mapping[str, Milliseconds] = {}
    types: Mapping[str, Milliseconds] = {}
    bpu_ms: float | None = None
    source: Source


def entry_name(node: TimedNode) -> str:
    """What a profile calls a node: ``Softmax_prob``, ``Dequantize_fc7_1_HzDequantize``."""
    return f"{_plain(node.op_type)}_{node.name}"


def _plain(op_type: str) -> str:
    return op_type.removeprefix("Hz")


def read_measured(path: Path) -> BoardFile:
    """A profile of a board, or a table of milliseconds by operator type.

    Raises:
        ConfigError: it is neither, or was measured on no board.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{path}: larger than {MOST_BYTES >> 20} MB; expected a profile of a board")
        text = path.read_text(encoding="utf-8")
        day = date.fromtimestamp(path.stat().st_mtime).isoformat()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    if SIMULATED in text:
        raise ConfigError(
            f"{path}: written by ptqlab's hrt_model_exec, which has no board: its times are estimates; run "
            "hrt_model_exec perf --profile_path on the board and give its profiler.log"
        )
    try:
        return _profile(text, path.name, day) or _table(text, path.name, day)
    except (ValidationError, yaml.YAMLError, ValueError) as error:
        raise ConfigError(
            f"{path}: neither a profiler.log of hrt_model_exec perf --profile_path, nor a YAML table of milliseconds "
            "by operator type, such as 'Softmax: 0.13'; times are numbers above 0"
        ) from error


def _profile(text: str, name: str, day: str) -> BoardFile | None:
    """The entries of a profile; None where ``text`` is none."""
    found = {key: float(value) for key, value in _ENTRY.findall(text)}
    if not found:
        return None
    parts = {key: ms for key, ms in found.items() if key not in _WHOLE}
    bpu = [ms for key, ms in parts.items() if key.startswith(_BPU)]
    entries = {key: ms for key, ms in parts.items() if not key.startswith(_BPU) and ms != 0}
    source = Source(file=name, date=day, entries=len(entries))
    return BoardFile(entries=entries, bpu_ms=sum(bpu) if bpu else None, source=source)


def _table(text: str, name: str, day: str) -> BoardFile:
    """Milliseconds by operator type."""
    content = yaml.safe_load(text)
    if not isinstance(content, dict) or not content:
        raise ValueError("no table")
    types = {_plain(str(key)): value for key, value in content.items()}
    if not all(_TYPE.fullmatch(key) for key in types):
        raise ValueError("an operator type is a word")
    return BoardFile(types=types, source=Source(file=name, date=day, entries=len(types)))


def times_of(board: str, march: str, measured: BoardFile, nodes: Iterable[TimedNode]) -> BoardTimes:
    """What ``measured`` says of a board.

    Args:
        board: what the user calls it.
        march: of its chip.
        measured: a file.
        nodes: CPU nodes of the network that was profiled.

    Raises:
        ConfigError: a profile has none of ``nodes``.
    """
    known = list(nodes)
    found = {name: node for node in known if (name := entry_name(node)) in measured.entries}
    if measured.entries and not found:
        listed = ", ".join(sorted(measured.entries)[:5])
        wanted = ", ".join(entry_name(node) for node in known[:5]) or "none: nothing runs on the CPU"
        raise ConfigError(
            f"{measured.source.file}: has no CPU node of this network on {march}; it has {listed}, the network "
            f"{wanted}; give the network and the march that were profiled"
        )
    own = {name: NodeTime(ms=measured.entries[name], elements=node.elements) for name, node in found.items()}
    types = {kind: TypeTime(ms=ms) for kind, ms in measured.types.items()}
    for kind in {_plain(node.op_type) for node in found.values()}:
        alike = [(measured.entries[name], node) for name, node in found.items() if _plain(node.op_type) == kind]
        total = math.fsum(ms for ms, _ in alike)
        estimated = math.fsum(node.estimated_us for _, node in alike)
        types[kind] = TypeTime(ms=total / len(alike), factor=1e3 * total / estimated)
    entries = len(own) if measured.entries else len(types)
    source = measured.source.model_copy(update={"entries": entries})
    return BoardTimes(board=board, march=march, sources=(source,), nodes=own, types=types)


def boards_folder() -> Path:
    """Where measurements are kept: what ``PTQLAB_BOARDS`` names, else ``ptqlab/boards`` among the user's data."""
    named = os.environ.get(VARIABLE)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(named) if named else Path(data) / "ptqlab" / "boards"


def board_file(march: str) -> Path:
    """The file of what was measured on a board with this chip."""
    return boards_folder() / f"{march}.json"


def stored_times(march: str) -> BoardTimes | None:
    """What was measured on a board with this chip; None where nothing was.

    Raises:
        ConfigError: the file is damaged.
    """
    path = board_file(march)
    if not path.is_file():
        return None
    try:
        return BoardTimes.model_validate_json(unsealed(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path}: no measurements of a board; remove it and measure again (ptqlab predict --profile)"
        ) from error


def keep_times(times: BoardTimes) -> BoardTimes:
    """Keep ``times`` together with what is known of the same board, which they replace where they overlap.

    Times of a board that is called otherwise replace all of it.
    """
    known = stored_times(times.march)
    if known is not None and known.board == times.board:
        new = {source.file for source in times.sources}
        times = BoardTimes(
            board=times.board,
            march=times.march,
            sources=(*(source for source in known.sources if source.file not in new), *times.sources),
            nodes={**known.nodes, **times.nodes},
            types={**known.types, **times.types},
        )
    write_atomically(board_file(times.march), sealed(times.model_dump_json()))
    return times


NOT_MEASURED = "estimates from nothing that was measured on a board"


def cpu_statement(cpu_us: float, measured_us: float, origin: str) -> str:
    """What CPU times rest on, in a sentence; empty where nothing runs on the CPU.

    Args:
        cpu_us: microseconds of all CPU nodes.
        measured_us: the part of it that was measured.
        origin: of the measurements; empty without any.
    """
    if not cpu_us:
        return ""
    if not measured_us:
        return f"CPU times are {NOT_MEASURED}; ptqlab predict --profile replaces them by measured ones."
    if measured_us > cpu_us * (1 - 1e-9):
        return f"CPU times were measured: {origin}."
    return f"CPU times: {100 * measured_us / cpu_us:.0f} % measured, {origin}; the rest are {NOT_MEASURED}."
