"""The map of the architecture page is that of the tree, and its list of layers the one that is checked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT
from tests.test_dependency_rule import LAYERS

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGES = ("engine", "harness")
OUTSIDE = ("research", "benchmarks", "tests")


def named() -> Iterator[tuple[str, str]]:
    """Rooms of the map with what is said of each; a name without its package is in that of the row's first."""
    table = PAGE.partition("| path | what it is |")[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        names, text = line.strip("| ").split(" | ", 1)
        first, *others = re.findall(r"`([^`]+)`", names)
        package = f"{first.partition('/')[0]}/" if "/" in first else ""
        yield from ((room, text) for room in (first, *(f"{package}{other}" for other in others)))


def parts(folder: Path) -> Iterator[str]:
    """Folders of the package's own in ``folder``."""
    yield from (path.name for path in sorted(folder.iterdir()) if path.is_dir() and path.name != "__pycache__")


def test_the_map_names_every_room_once() -> None:
    found = [room for room, _ in named()]
    expected = [f"{package}/{name}" for package in PACKAGES for name in parts(ROOT / package)]
    expected += [f"{p}/{path.name}" for p in PACKAGES for path in (ROOT / p).glob("*.py") if path.name[0] != "_"]
    assert sorted(found) == sorted([*expected, *OUTSIDE])


def test_a_room_s_folders_are_said_with_it() -> None:
    for room, text in named():
        if room.startswith(PACKAGES) and (ROOT / room).is_dir():
            said = set(re.findall(r"`([^`]+)`", text))
            assert set(parts(ROOT / room)) <= said, room


def test_every_path_of_the_page_exists() -> None:
    for name in re.findall(r"`((?:engine|harness|tests|research|benchmarks|\.ci)/[\w./]+)`", PAGE):
        assert (ROOT / name).exists(), name


def test_the_list_of_layers_is_the_one_that_is_checked() -> None:
    (line,) = [line for line in PAGE.splitlines() if line.startswith("    cli, compat →")]
    assert [set(layer.strip().split(", ")) for layer in line.split("→")] == list(LAYERS)
