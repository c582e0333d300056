"""The YAML file in which ultralytics describes data: where images are, and the names of the classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.config import load_yaml
from engine.errors import ConfigError

SPLITS = ("val", "test", "train")
"""Where images are taken from, the first that is there: not those that the network was trained on, if possible."""


@dataclass(frozen=True)
class DescribedData:
    """What a data YAML says.

    Attributes:
        images: folder of the images.
        split: key under which it stands.
        names: of the classes, by their numbers.
    """

    images: Path
    split: str
    names: tuple[str, ...]


def read_data_yaml(path: Path) -> DescribedData:
    """What ``path`` describes; labels lie where ultralytics looks for them, ``labels`` in place of ``images``.

    Raises:
        ConfigError: it names no folder of images that is there, or its names are wrong.
    """
    content = load_yaml(path)
    if not isinstance(content, Mapping):
        raise ConfigError(f"{path}: expected the keys path, train, val and names, as ultralytics has them")
    split = next((name for name in SPLITS if content.get(name)), None)
    if split is None:
        raise ConfigError(f"{path}: has no key val, test or train; expected one, a folder of images")
    return DescribedData(_folder(path, content, split), split, _names(path, content))


def _folder(path: Path, content: Mapping[Any, Any], split: str) -> Path:
    """The folder of a split, below ``path`` of the file, which is absolute, below the file, or below where we are."""
    given = content[split]
    if isinstance(given, list) and len(given) == 1:
        (given,) = given
    if not isinstance(given, str) or given.lower().endswith(".txt"):
        what = "a list of several folders" if isinstance(given, list) else repr(given)
        raise ConfigError(
            f"{path}: {split}: {what}: expected one folder of images; give the folder above them: --images DIR"
        )
    root = Path(str(content.get("path") or ""))
    roots = dict.fromkeys((path.parent / root, Path.cwd() / root, path.parent))
    tried = [place / part for place in roots for part in (given, given.removeprefix("../"))]
    found = next((folder for folder in tried if folder.is_dir()), None)
    if found is None:
        places = ", ".join(dict.fromkeys(str(folder.resolve()) for folder in tried))
        raise ConfigError(
            f"{path}: {split}: {given}: no such folder (tried {places}); correct path, or give --images DIR"
        )
    return found.resolve()


def _names(path: Path, content: Mapping[Any, Any]) -> tuple[str, ...]:
    names = content.get("names") or []
    if isinstance(names, Mapping):
        if set(names) != set(range(len(names))):
            raise ConfigError(f"{path}: names: expected the numbers 0 to {len(names) - 1}, each with a name")
        names = [names[number] for number in range(len(names))]
    if not isinstance(names, list):
        raise ConfigError(f"{path}: names: expected a list of names, or numbers with names")
    count = content.get("nc", len(names))
    if names and count != len(names):
        raise ConfigError(f"{path}: nc is {count}, but names has {len(names)}")
    return tuple(map(str, names))
