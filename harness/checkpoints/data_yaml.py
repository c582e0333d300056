"""The YAML file in which ultralytics describes data: where images are, and the names of the classes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.config import load_yaml
from engine.errors import ConfigError, OutputError
from engine.visible import visible
from harness.datasets.label_files import PICTURE_SUFFIXES, instead_of_images, pictures
from harness.files.cache import content_key

SPLITS = ("val", "test", "train")
"""Where images are taken from, the first that is there: not those that the network was trained on, if possible."""
_LIST = ".txt"
"""Suffix of files that list images, one per line."""
_SHOWN = 3
"""Paths that a message shows of many."""


@dataclass(frozen=True)
class DescribedData:
    """What a data YAML says.

    Attributes:
        split: key under which the images stand.
        names: of the classes, by their numbers.
        folder: of the images, where they are all that one folder holds.
        images: otherwise: their files.
    """

    split: str
    names: tuple[str, ...]
    folder: Path | None = None
    images: tuple[Path, ...] = ()

    def in_one_folder(self, parent: Path) -> Path:
        """The folder of the images; of several folders or lists, one below ``parent`` with links to images and labels.

        It is named by what it links to, and made once.

        Raises:
            OutputError: it cannot be written.
        """
        if self.folder is not None:
            return self.folder
        target = parent / f"images-{content_key([str(path) for path in self.images])[:12]}"
        shared = Path(os.path.commonpath([path.parent for path in self.images]))
        try:
            for image in self.images:
                place = image.relative_to(shared)
                _link(image, target / "images" / place)
                label = (instead_of_images(image, "labels") or image).with_suffix(".txt")
                if label.is_file():
                    _link(label, target / "labels" / place.with_suffix(".txt"))
        except OSError as error:
            raise OutputError(f"{error.filename or target}: cannot be written: {error.strerror}") from error
        return target / "images"


def _link(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.is_symlink():
        place.symlink_to(file)


def read_data_yaml(path: Path) -> DescribedData:
    """What ``path`` describes; labels lie where ultralytics looks for them, ``labels`` in place of ``images``.

    A split is a folder of images, a text file that lists them, or a list of both.

    Raises:
        ConfigError: it names no images that are there, or its names are wrong.
    """
    content = load_yaml(path)
    if not isinstance(content, Mapping):
        raise ConfigError(f"{path}: expected the keys path, train, val and names, as ultralytics has them")
    split = next((name for name in SPLITS if content.get(name)), None)
    if split is None:
        raise ConfigError(f"{path}: has no key val, test or train; expected one, a folder of images")
    names = _names(path, content)
    given = content[split]
    entries = given if isinstance(given, list) else [given]
    if not all(isinstance(entry, str) and entry for entry in entries):
        raise ConfigError(
            f"{path}: {split}: {visible(str(given))}: expected folders of images, or text files that list them"
        )
    places = [_place(path, content, split, entry) for entry in entries]
    if len(places) == 1 and places[0].is_dir():
        return DescribedData(split, names, places[0])
    images = tuple(dict.fromkeys(image for place in places for image in _images(place)))
    if not images:
        listed = ", ".join(map(str, places[:_SHOWN]))
        raise ConfigError(f"{path}: {split}: {listed}: no images; correct path, or give --images DIR")
    return DescribedData(split, names, images=images)


def _place(path: Path, content: Mapping[Any, Any], split: str, given: str) -> Path:
    """The folder or list of a split, below ``path`` of the file, which is absolute, below it, or below where we are."""
    root = Path(str(content.get("path") or ""))
    roots = dict.fromkeys((path.parent / root, Path.cwd() / root, path.parent))
    tried = [place / part for place in roots for part in (given, given.removeprefix("../"))]
    is_list = given.lower().endswith(_LIST)
    found = next((each for each in tried if (each.is_file() if is_list else each.is_dir())), None)
    if found is None:
        places = ", ".join(dict.fromkeys(str(each.resolve()) for each in tried))
        what = "file" if is_list else "folder"
        raise ConfigError(
            f"{path}: {split}: {given}: no such {what} (tried {places}); correct path, or give --images DIR"
        )
    return found.resolve()


def _images(place: Path) -> Sequence[Path]:
    """Image files of a folder, or those that a text file lists; ``./`` in it stands for its own folder."""
    return pictures(place) if place.is_dir() else list(_listed(place))


def _listed(file: Path) -> Iterator[Path]:
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read as a list of images: {error}") from error
    missing = []
    for line in map(str.strip, lines):
        if not line or Path(line).suffix.lower() not in PICTURE_SUFFIXES:
            continue
        found = next((place for place in (file.parent / line, Path.cwd() / line) if place.is_file()), None)
        if found is None:
            missing.append(line)
        else:
            yield found.absolute()
    if missing:
        raise ConfigError(
            f"{file}: lists {len(missing)} image(s) that are not there, such as {visible(missing[0])} (looked for "
            f"below {file.parent} and {Path.cwd()}); correct the list, or give --images DIR"
        )


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
