"""Dataset cards (``datasets/*.yaml``) and the adapters that they name."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import Field, PositiveInt

from engine.errors import CalibrationDataError, ConfigError
from harness import paths
from harness.datasets.base import Dataset, ImageFormat
from harness.datasets.digits import Digits
from harness.datasets.files import ArrayFolder, Coco, ImageFolder
from harness.datasets.labelled_folder import LabelledFolder
from harness.datasets.mnist import Mnist
from harness.datasets.scenes import Scenes
from harness.datasets.text_lines import TextLines
from harness.datasets.text_pages import TextPages
from harness.datasets.torchvision_data import TorchvisionData
from harness.strict_yaml import StrictModel, load_typed, parse, unknown

ADAPTERS: Mapping[str, type[Dataset]] = MappingProxyType(
    {
        "mnist": Mnist,
        "digits": Digits,
        "scenes": Scenes,
        "labelled_folder": LabelledFolder,
        "image_folder": ImageFolder,
        "array_folder": ArrayFolder,
        "coco": Coco,
        "torchvision": TorchvisionData,
        "text_lines": TextLines,
        "text_pages": TextPages,
    }
)
"""Adapter by the name that cards use."""


class DatasetCard(StrictModel):
    """What is known of a data set before it is opened.

    Attributes:
        name: as in ``open_dataset(name)``; the file is called ``name.yaml``.
        version: of the card.
        adapter: key of :data:`ADAPTERS`.
        description, source, licence: what the data are, where they come from, under which terms.
        options: of the adapter.
        image: format of every image.
        classes: names of the classes in the order of their numbers; empty where they are too many to list.
        splits: number of images by split.
        digest: of the opened data set (:attr:`Dataset.digest`); ties the card to exact images, targets and splits.
    """

    name: str
    version: PositiveInt
    adapter: str
    description: str
    source: str
    licence: str
    options: Mapping[str, Any] = Field(default_factory=dict)
    image: ImageFormat
    classes: tuple[str, ...] = ()
    splits: Mapping[str, PositiveInt]
    digest: str = Field(pattern="^[0-9a-f]{64}$")


def list_dataset_cards(pattern: str = "*") -> list[DatasetCard]:
    """Cards whose name matches the glob ``pattern``, by name."""
    return [load_dataset_card(name) for name in _cards() if fnmatchcase(name, pattern)]


def load_dataset_card(name: str) -> DatasetCard:
    """The card called ``name``.

    Raises:
        ConfigError: there is no such card, or it is wrong.
    """
    if name not in _cards():
        raise unknown("dataset", name, _cards())
    return load_typed(_cards()[name], DatasetCard)


def open_dataset(name_or_card: str | DatasetCard, options: Mapping[str, Any] | None = None) -> Dataset:
    """Open a data set.

    Args:
        name_or_card: name of a bundled card, or a card.
        options: adapter options that replace single ones of the card; the result then has a digest of its own.

    Raises:
        ConfigError: the name, the adapter or an option is unknown or wrong.
        CalibrationDataError: the data are absent, damaged, or not those that the card describes.
    """
    card = load_dataset_card(name_or_card) if isinstance(name_or_card, str) else name_or_card
    if card.adapter not in ADAPTERS:
        raise unknown("dataset adapter", card.adapter, ADAPTERS)
    adapter = ADAPTERS[card.adapter]
    where = f"options of dataset {card.name}"
    as_carded = parse(card.options, adapter.Options, where)
    wanted = parse({**card.options, **(options or {})}, adapter.Options, where)
    dataset = adapter(wanted)
    if wanted == as_carded:
        _check(dataset, card)
    return dataset


def _check(dataset: Dataset, card: DatasetCard) -> None:
    """What was opened is what the card promises."""
    counts = {name: len(split) for name, split in dataset.splits.items()}
    if counts != card.splits or dataset.image_format != card.image:
        raise ConfigError(
            f"dataset {card.name}: its card says splits {dict(card.splits)} of {card.image.shape}, the options give "
            f"{counts} of {dataset.image_format.shape}"
        )
    if dataset.digest != card.digest:
        raise CalibrationDataError(
            f"dataset {card.name}: the data found have digest {dataset.digest}, its card was written for "
            f"{card.digest}; the source data or the adapter have changed"
        )


def _cards() -> dict[str, Path]:
    return paths.yaml_files(paths.datasets())
