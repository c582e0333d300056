"""The original toolchain as a black box: its commands run, its log read."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from engine.conformance.cases import CUT_OFF
from engine.errors import ConfigError

LOG_FILE = "hb_mapper_makertbin.log"
"""What the tool writes where it is started."""
MOST_LOG_BYTES = 1 << 26
"""How much of a log is read, from its end."""
VERSION_SECONDS = 120.0
TAIL_LINES = 30

_MESSAGE = re.compile(r"^\S+ \S+ (WARNING|ERROR|CRITICAL) (.*)$")
_VERSION = re.compile(r"^\S+ \S+ INFO (\S+ version \S+.*)$")
_NODE = re.compile(r"^(\S.*?)\s+(BPU|CPU)\s+(id\(\d+\)|--)\s+(\S+)((?:\s+\S+)*)\s*$")
_OUTPUT = re.compile(r"^(\S.*?)((?:\s+(?:-?[\d.]+(?:e[+-]?\d+)?|nan|inf|--)){4})\s*$")
_PERFORMANCE = re.compile(r"FPS=[\d.]+, latency = ([\d.]+) us, DDR = (\d+) bytes")


@dataclass(frozen=True)
class Log:
    """What the log of a conversion says.

    Attributes:
        messages: warnings and errors, as ``ERROR text``.
        versions: of the tools that it names.
        nodes: the node table: a row of texts by heading.
        outputs: the output table: name, cosine, L1, L2, Chebyshev, as texts.
        subgraphs: ``latency`` in us and ``ddr`` in bytes of every BPU subgraph, in the order of the log.
        tail: the last lines.
    """

    messages: tuple[str, ...]
    versions: tuple[str, ...]
    nodes: tuple[dict[str, str], ...]
    outputs: tuple[tuple[str, ...], ...]
    subgraphs: tuple[dict[str, float], ...]
    tail: tuple[str, ...]


@dataclass(frozen=True)
class Finished:
    """A run of the tool.

    Attributes:
        code: exit code; :data:`~engine.conformance.cases.CUT_OFF` where it was ended for taking too long.
        text: what it printed.
    """

    code: int
    text: str


@dataclass(frozen=True)
class Command:
    """A command line, without a shell.

    Attributes:
        words: program and its first arguments; files among them are absolute.
    """

    words: tuple[str, ...] = field()

    @classmethod
    def parse(cls, text: str, option: str) -> Command:
        """The command that ``text`` is, as a shell would split it.

        Raises:
            ConfigError: it is empty, not closed quotes, or names no program.
        """
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise ConfigError(f"{option} {text}: {error}") from error
        if not words:
            raise ConfigError(f"{option}: expected a command")
        program = shutil.which(words[0])
        if program is None:
            raise ConfigError(f"{option} {text}: {words[0]}: no such program")
        return cls((os.path.abspath(program), *(os.path.abspath(w) if os.path.isfile(w) else w for w in words[1:])))

    def run(self, arguments: Sequence[str], folder: Path, time_limit: float) -> Finished:
        """Run it with more ``arguments`` in ``folder``; it and what it starts are ended after ``time_limit`` seconds.

        Raises:
            ConfigError: it cannot be started.
        """
        output = folder / "printed.txt"
        try:
            with output.open("wb") as stream:
                process = subprocess.Popen(
                    [*self.words, *arguments],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise ConfigError(f"{self.words[0]}: cannot be started: {error.strerror}") from error
        try:
            code = process.wait(time_limit)
        except subprocess.TimeoutExpired:
            code = CUT_OFF
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return Finished(code, read_text(output))


def read_text(path: Path) -> str:
    """The end of a text file; empty where there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - MOST_LOG_BYTES))
        return stream.read().decode("utf-8", errors="replace")


def read_log(text: str) -> Log:
    """What the log ``text`` of a conversion says."""
    lines = [line.rstrip() for line in text.splitlines()]
    return Log(
        messages=tuple(f"{found[1]} {found[2]}" for line in lines if (found := _MESSAGE.match(line))),
        versions=tuple(dict.fromkeys(found[1] for line in lines if (found := _VERSION.match(line)))),
        nodes=_node_table(lines),
        outputs=_output_table(lines),
        subgraphs=tuple(
            {"latency": float(found[1]), "ddr": float(found[2])}
            for line in lines
            if (found := _PERFORMANCE.search(line))
        ),
        tail=tuple(lines[-TAIL_LINES:]),
    )


def _node_table(lines: Sequence[str]) -> tuple[dict[str, str], ...]:
    start = _heading(lines, ("Node", "ON", "Subgraph", "Type"))
    if start is None:
        return ()
    more = lines[start].split("Type", 1)[1]
    headings = [name for name in ("Cosine Similarity", "Threshold", "DataType") if name in more]
    rows = []
    for line in lines[start + 1 :]:
        found = _NODE.match(line)
        if found:
            values = dict(zip(headings, found[5].split(), strict=False))
            rows.append({"Node": found[1], "ON": found[2], "Subgraph": found[3], "Type": found[4], **values})
        elif rows:
            break
    return tuple(rows)


def _output_table(lines: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    start = _heading(lines, ("Output", "Cosine", "Similarity"))
    rows: list[tuple[str, ...]] = []
    for line in lines[start + 1 :] if start is not None else ():
        found = _OUTPUT.match(line)
        if found:
            rows.append((found[1], *found[2].split()))
        elif rows:
            break
    return tuple(rows)


def _heading(lines: Sequence[str], words: tuple[str, ...]) -> int | None:
    """Index of the first line that begins with ``words``."""
    return next((index for index, line in enumerate(lines) if tuple(line.split()[: len(words)]) == words), None)
