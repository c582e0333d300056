"""Links between the pages of one network, which different commands write: placement, performance, accuracy.

The head of a page says what it shows, and of which network. A command that writes a page looks for others of the same
network below the folder in which it runs, and puts links into all of them.
"""

from __future__ import annotations

import hashlib
import html
import os
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

import onnx_ir as ir

from engine.ir import write_atomically

DEEPEST = 3
"""How many folders below the first one are searched."""
MOST_ENTRIES = 5_000
"""How many names of files and folders are looked at, so that a command in a large folder does not wait."""
HEAD_CHARACTERS = 2_000
"""The head of a page says what the page is within this number of characters."""

_IDENTITY = re.compile(r'<meta name="ptqlab-page" content="([a-z_]+) ([0-9a-f]{16})">')
_LINKS = re.compile(r"<!-- links -->.*?<!-- end of links -->", re.DOTALL)


class PageKind(StrEnum):
    """What a page shows of a network."""

    PLACEMENT = "placement"
    PERFORMANCE = "performance"
    ACCURACY = "accuracy"


def identity(kind: PageKind, model: ir.Model) -> str:
    """What ``base.html.j2`` takes as ``identity``.

    Two models are of one network if their inputs, outputs and convolutions have the same names, which the stages from
    the optimised model to the ``.bin`` keep.

    Args:
        kind: of the page.
        model: calibrated or quantised.
    """
    graph = model.graph
    parts = (
        [str(value.name) for value in graph.inputs],
        [str(value.name) for value in graph.outputs],
        sorted(str(node.name) for node in graph if "Conv" in node.op_type),
    )
    return f"{kind.value} {hashlib.sha256(repr(parts).encode(errors='surrogatepass')).hexdigest()[:16]}"


def write_page(path: Path, page: str) -> Path:
    """Write ``page``, and link it with the pages of the same network.

    The search begins in the folder in which the command runs or, if ``path`` is not within it, in the folder of
    ``path``. Pages of other networks and other files are not changed.

    Returns:
        ``path``.

    Raises:
        OutputError: a page cannot be written.
    """
    path = write_atomically(path, page.encode())
    own = _identity_of(page[:HEAD_CHARACTERS])
    if own is None:
        return path
    found = {path.resolve(): own[0]} | {
        other: kind for other, (kind, network) in _pages_below(_first_folder(path)) if network == own[1]
    }
    if len(found) > 1:
        for target in found:
            _set_links(target, {other: kind for other, kind in found.items() if other != target})
    return path


def _first_folder(path: Path) -> Path:
    here, folder = Path.cwd().resolve(), path.resolve().parent
    return here if folder.is_relative_to(here) else folder


def _pages_below(folder: Path) -> Iterator[tuple[Path, tuple[PageKind, str]]]:
    """Pages that say what they are, by path, in order of depth and name."""
    level, seen = [folder], 0
    for _ in range(DEEPEST + 1):
        deeper = []
        for each in level:
            for entry in _entries(each):
                seen += 1
                if seen > MOST_ENTRIES:
                    return
                if entry.is_dir(follow_symlinks=False):
                    deeper.append(Path(entry.path))
                elif entry.name.endswith(".html") and entry.is_file(follow_symlinks=False):
                    page = _page_at(Path(entry.path))
                    if page is not None:
                        yield Path(entry.path), page
        level = deeper


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder, without hidden names; nothing if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError:
        return []


def _page_at(path: Path) -> tuple[PageKind, str] | None:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return _identity_of(stream.read(HEAD_CHARACTERS))
    except OSError:
        return None


def _identity_of(head: str) -> tuple[PageKind, str] | None:
    found = _IDENTITY.search(head)
    if found is None or found[1] not in set(PageKind):
        return None
    return PageKind(found[1]), found[2]


def _set_links(page: Path, others: dict[Path, PageKind]) -> None:
    """Name ``others`` in the page at ``page``, with paths relative to it."""
    links = " · ".join(
        f'<a href="{html.escape(quote(os.path.relpath(path, page.parent)))}">{kind.value}: {html.escape(path.name)}</a>'
        for path, kind in sorted(others.items(), key=lambda item: (item[1], item[0]))
    )
    text = page.read_text(encoding="utf-8")
    place = _LINKS.search(text)
    if place is not None:
        line = f"<!-- links -->Other pages of this network: {links}<!-- end of links -->"
        linked = f"{text[: place.start()]}{line}{text[place.end() :]}"
        if linked != text:
            write_atomically(page, linked.encode())
