"""The networks of ``python -m benchmarks.speed zoo``: nothing is downloaded; what is not there is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import onnx

from benchmarks.speed.structures import STRUCTURES, build
from engine.errors import MissingError, ModelError
from harness.files import paths
from harness.zoo.cards import ModelCard, list_cards, load_card

SUITE = "zoo"
"""Name that stands for all networks."""
EXTERNAL = "efficientnet_lite0"
"""The card of the zoo that is measured where its file is installed."""


class SuitePart(StrEnum):
    """Which networks; users write these names."""

    STRUCTURES = "structures"
    BUNDLED = "bundled"
    REFERENCE = "reference"


@dataclass(frozen=True)
class SuiteNetwork:
    """A float network.

    Attributes:
        name: in the tables.
        group: that it belongs to.
        file: gives its ONNX file; the folder is for one that is made anew.
    """

    name: str
    group: SuitePart
    file: Callable[[Path], Path]


def suite(names: Sequence[str]) -> list[SuiteNetwork]:
    """The networks that ``names`` ask for: :data:`SUITE`, groups, structures; other names are ignored."""
    wanted = set(names)
    return [
        network
        for network in (*_real_size(), *_bundled(), *_reference())
        if wanted & {SUITE, network.group.value}
        or (network.group is SuitePart.STRUCTURES and network.name in wanted & set(STRUCTURES))
    ]


def suite_names() -> frozenset[str]:
    """The names that :func:`suite` knows; others are cards of the zoo."""
    return frozenset({SUITE, *STRUCTURES, *(group.value for group in SuitePart)})


def _real_size() -> list[SuiteNetwork]:
    found = []
    card = load_card(EXTERNAL)
    try:
        card.model_path()
    except (MissingError, ModelError):
        pass
    else:
        found.append(_of_card(card, SuitePart.STRUCTURES))
    return found + [SuiteNetwork(name, SuitePart.STRUCTURES, _maker(name)) for name in STRUCTURES]


def _bundled() -> list[SuiteNetwork]:
    return [_of_card(card, SuitePart.BUNDLED) for card in list_cards() if card.source.bundled is not None]


def _reference() -> list[SuiteNetwork]:
    """Networks of the measured reference, where it is present."""
    folder = paths.external_reference()
    files = () if folder is None else sorted((folder / "networks" / "nets").glob("*.onnx"))
    return [SuiteNetwork(file.stem, SuitePart.REFERENCE, _file(file)) for file in files]


def _of_card(card: ModelCard, group: SuitePart) -> SuiteNetwork:
    return SuiteNetwork(card.name, group, lambda _: card.model_path())


def _file(path: Path) -> Callable[[Path], Path]:
    return lambda _: path


def _maker(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / f"{name}.onnx"
        onnx.save(build(name), path)
        return path

    return make
