"""What the log of a conversion by the original says: tables, messages, versions, the reason of a failure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from engine.toolchain.command import CUT_OFF, Finished

TAIL_LINES = 30
MOST_REASON = 400
"""Characters of a reason; some messages of the tool hold a whole model."""

_MESSAGE = re.compile(r"^\S+ \S+ (WARNING|ERROR|CRITICAL) (.*)$")
_VERSION = re.compile(r"^\S+ \S+ INFO (\S+ version \S+.*)$")
_NUMBER = re.compile(r"\bversion:?\s+v?(\d[\w.+-]*)")
_TOOLS = ("hb_mapper", "hb_compile")
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_STAMP = re.compile(r"^\d{4}-\S+ \S+ (?:INFO|DEBUG|WARNING|ERROR|CRITICAL) ")
_STAGE = re.compile(r"(?i)\bstart(?: to)? (prepare|optimize|calibrate|quantize|compile|convert) (?:the|to) ")
_COMPILED = re.compile(r"^\[[=\- ]+\]\s*(\d+)%")
_BAR = re.compile(r"\d+%\s*\||^\[[=\- ]+\]\s*\d+%")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)")
_CHAINED = re.compile(r"^(?:During handling of the above exception|The above exception was the direct cause)")
_PATH = re.compile(
    r"(?<![\w.:/<>-])/(?:home|root|Users|tmp|private|mnt|media|opt|usr|var|srv|data|workspace|open_explorer)/"
    r"(?:[\w.+@~-]+/)*(?=[\w.+@~-])"
)
"""Folders in which people keep files; names of nodes begin with a stroke too."""
_SOURCE = re.compile(r"/(?:[\w.+@~-]+/)+(?=[\w+@~-]+\.(?:c|cc|cpp|cxx|h|hpp|py):\d+\b)")
"""Folders of lines of source, which failed assertions name, right behind a colon too."""
_SAYS_NOTHING = re.compile(r"exception in command|yaml file parse failed|^Parse '\w+' failed")
"""Errors that stand beside the one that has the reason."""
_WHERE = re.compile(r"^\*+ ?ERROR-OCCUR-DURING \S+ \*+, error message: ")
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b")
_SHOWN = MappingProxyType(
    {
        "prepare": "reads the network",
        "optimize": "optimises",
        "calibrate": "calibrates",
        "quantize": "quantises",
        "compile": "compiles",
        "convert": "writes the .bin",
    }
)
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


def read_log(text: str, folders: Mapping[str, str] = MappingProxyType({})) -> Log:
    """What the log ``text`` of a conversion says.

    Args:
        text: the log.
        folders: what stands in messages and tail for a folder of the user's; of other paths, the last part is kept.
    """
    lines = list(_lines(text))
    shown = list(tidied(text, folders))
    found = [match for line in shown if (match := _MESSAGE.match(line))]
    return Log(
        messages=tuple(f"{match[1]} {match[2]}" for match in found),
        versions=tuple(dict.fromkeys(match[1] for line in lines if (match := _VERSION.match(line)))),
        nodes=_node_table(lines),
        outputs=_output_table(lines),
        subgraphs=tuple(
            {"latency": float(match[1]), "ddr": float(match[2])}
            for line in lines
            if (match := _PERFORMANCE.search(line))
        ),
        tail=tuple(shown[-TAIL_LINES:]),
    )


def tidied(text: str, folders: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """Lines of ``text`` without colours, progress bars, blank lines, frames of tracebacks and the user's paths."""
    known = sorted({**folders, str(Path.home()): "~"}.items(), key=lambda pair: -len(pair[0]))
    for line in _lines(text):
        for folder, name in known:
            line = line.replace(folder, name)
        yield _PATH.sub("", _SOURCE.sub("", line))


def _lines(text: str) -> Iterator[str]:
    inside = False
    for line in _COLOUR.sub("", text).replace("\r", "\n").splitlines():
        if _TRACEBACK.search(line) or _CHAINED.match(line):
            inside = True
        elif line.strip() and not (inside and line[0].isspace()) and not _BAR.search(line):
            inside = False
            yield line.rstrip()


def reason(done: Finished, folders: Mapping[str, str] = MappingProxyType({}), log: str = "") -> str:
    """Why a run failed, in one line: the last error that says something, else the last line.

    Args:
        done: the run.
        folders: as for :func:`read_log`.
        log: of the run; what it printed if empty.
    """
    if done.code == CUT_OFF:
        return f"it was ended after {done.seconds:.0f} s, the time limit"
    lines = list(tidied(log or done.text, folders))
    errors = [match[2] for line in lines if (match := _MESSAGE.match(line)) and match[1] != "WARNING"]
    raised = [line for line in lines if _EXCEPTION.match(line)]
    telling = [text for text in errors if not _SAYS_NOTHING.search(text)]
    found = (telling or raised or errors or [_STAMP.sub("", line) for line in lines])[-1:]
    text = _WHERE.sub("", found[0].strip()) if found else "it printed nothing"
    return text if len(text) <= MOST_REASON else f"{text[:MOST_REASON]} …"


def is_log(text: str) -> bool:
    """Whether ``text`` has lines of a log, with times and levels."""
    return any(_STAMP.match(line) for line in text.splitlines())


def version_in(texts: Iterable[str]) -> str:
    """The version that ``texts`` state of the tool, such as ``1.24.3``, else the last one; empty where none does."""
    found = [(text, match[1]) for text in texts if (match := _NUMBER.search(text))]
    own = [version for text, version in found if text.startswith(_TOOLS)]
    return (own or [version for _, version in found] or [""])[-1]


def progress_in(line: str) -> str | None:
    """What a line that the tool prints says of its progress, such as ``compiles, 45 %``; None for nothing."""
    if found := _COMPILED.match(line.strip()):
        return f"{_SHOWN['compile']}, {found[1]} %"
    stage = _STAGE.search(line)
    return _SHOWN[stage[1].lower()] if stage else None


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
