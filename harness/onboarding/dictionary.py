"""Characters of a network that reads text: from its metadata, or from a file of one per line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from engine.errors import ConfigError
from harness.datasets.label_files import read_label_text
from harness.onboarding.exporters import CHARACTER_KEYS
from harness.onboarding.head_guess import HeadGuess
from harness.onboarding.network_file import NetworkOutputs

BESIDE_CHARACTERS = (1, 2)
"""Classes of a network beside the characters of its dictionary: the blank, and perhaps the blank space."""
_NAMES = ("dict", "key", "charset", "characters", "alphabet", "vocab")


def with_characters(
    head: HeadGuess, network: NetworkOutputs, dictionary: Path | None, places: Sequence[Path]
) -> tuple[HeadGuess, tuple[str, ...]]:
    """``head`` with the characters of its classes; compared by cosine where there are none. And what is to be said.

    The blank counts as class, and so may the blank space (PaddleOCR's ``use_space_char``): a dictionary fits if it has
    one or two characters less than the network has classes.

    Args:
        head: of a network that reads text.
        network: as it was read.
        dictionary: file with a character per line; None to look in the metadata and in ``places``.
        places: folders that a dictionary may lie in.

    Raises:
        ConfigError: ``dictionary`` has another number of characters.
    """
    key = next((key for key in CHARACTER_KEYS if key in network.metadata), None)
    if dictionary is not None:
        found = _characters(dictionary)
        if head.classes - len(found) not in BESIDE_CHARACTERS:
            raise ConfigError(
                f"{dictionary}: has {len(found)} characters, the network tells {head.classes} classes apart: expected "
                f"{head.classes - 1}, or {head.classes - 2} with a blank space behind them"
            )
        return _reading(head, {"characters": found}, len(found), dictionary.name), ()
    if key is not None:
        text = network.metadata[key]
        count = len(text.removesuffix("\n").split("\n"))
        if head.classes - count in BESIDE_CHARACTERS:
            taken = _reading(head, {"characters": text}, count, f"{key} in the metadata of the file")
            return replace(taken, from_metadata={"characters": key}), ()
    for place in places:
        for file in sorted(place.glob("*.txt")):
            if any(word in file.stem.lower() for word in _NAMES):
                found = _characters(file)
                if head.classes - len(found) in BESIDE_CHARACTERS:
                    return _reading(head, {"characters": found}, len(found), file.name), ()
    note = (
        f"no dictionary of {head.classes - 1} or {head.classes - 2} characters in the metadata or beside the network: "
        "give --dictionary FILE, a character per line; until then outputs are compared with the float model's"
    )
    return replace(head, metric="cosine", options={}), (note,)


def _characters(file: Path) -> list[str]:
    """A character per line; a line may hold a blank space."""
    lines = read_label_text(file).split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def _reading(head: HeadGuess, options: dict[str, Any], count: int, where: str) -> HeadGuess:
    has_space = head.classes - count == 2
    options["space"] = has_space
    space = " and a blank space" if has_space else ""
    return replace(head, options=options, reason=f"{head.reason}; {count} characters{space} from {where}")


def with_blank(head: HeadGuess, outputs: NDArray[Any]) -> HeadGuess:
    """``head`` with the class that stands for no character: first or last, whichever more steps of ``outputs`` say.

    Args:
        head: of a network that reads text.
        outputs: (images, steps, classes), or (images, steps, 1, classes).
    """
    best = outputs.argmax(axis=-1)
    last = head.classes - 1
    if int((best == last).sum()) > int((best == 0).sum()):
        return replace(
            head, options={**head.options, "blank": last}, reason=f"{head.reason}; the last class is the blank"
        )
    return head
