"""Dataset cards (``datasets/*.yaml``) and the adapters that they name."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from pydantic import Field, PositiveInt, model_validator

from engine.errors import CalibrationDataError, ConfigError
from harness.datasets.base import IMAGE, Colour, Dataset, ImageFormat, PartFormat
from harness.datasets.coco import Coco
from harness.datasets.digits import Digits
from harness.datasets.files import ArrayFolder, ImageFolder
from harness.datasets.input_folders import InputFolders
from harness.datasets.labelled_folder import LabelledFolder
from harness.datasets.mnist import Mnist
from harness.datasets.own_arrays import OwnArrays
from harness.datasets.own_images import OwnImages
from harness.datasets.scenes import Scenes
from harness.datasets.text_lines import TextLines
from harness.datasets.text_pages import TextPages
from harness.datasets.torchvision_data import TorchvisionData
from harness.extensions import DATASETS
from harness.files import paths
from harness.files.strict_yaml import StrictModel, load_draft, load_typed, parse, read_mapping, unknown
from harness.files.user_code import digest_of_own, is_own, load_own, running_own

ADAPTERS: Mapping[str, type[Dataset]] = MappingProxyType(
    {
        "mnist": Mnist,
        "digits": Digits,
        "scenes": Scenes,
        "labelled_folder": LabelledFolder,
        "own_images": OwnImages,
        "own_arrays": OwnArrays,
        "image_folder": ImageFolder,
        "array_folder": ArrayFolder,
        "input_folders": InputFolders,
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
        adapter: key of :data:`ADAPTERS`, or of the user's own, a :class:`Dataset`: ``module:Class``, or a
            registered name (:data:`harness.extensions.DATASETS`).
        description, source, licence: what the data are, where they come from, under which terms.
        options: of the adapter.
        image: format of every image, where a sample is one.
        parts: else what a sample is made of, by name.
        classes: names of the classes in the order of their numbers; empty where they are too many to list.
        splits: number of images by split.
        digest: of the opened data set (:attr:`Dataset.digest`); ties the card to exact images, targets and splits.
        determinants: what the digest was made of; ``ptqlab digest --write`` keeps it here, so that a message can say
            what has changed.
    """

    name: str
    version: PositiveInt
    adapter: str
    description: str
    source: str
    licence: str
    options: Mapping[str, Any] = Field(default_factory=dict)
    image: ImageFormat | None = None
    parts: Mapping[str, PartFormat] = Field(default_factory=dict)
    classes: tuple[str, ...] = ()
    splits: Mapping[str, PositiveInt]
    digest: str = Field(pattern="^[0-9a-f]{64}$")
    determinants: Mapping[str, str] = Field(default_factory=dict)

    @property
    def formats(self) -> Mapping[str, PartFormat]:
        """What every sample is made of, by name."""
        return self.parts if self.image is None else {IMAGE: self.image}

    @model_validator(mode="after")
    def _image_or_parts(self) -> Self:
        if (self.image is None) == (not self.parts):
            raise ValueError("exactly one of image and parts must be given")
        return self


def list_dataset_cards(pattern: str = "*") -> list[DatasetCard]:
    """Cards whose name matches the glob ``pattern``, by name."""
    return [load_dataset_card(name) for name in data_set_cards() if fnmatchcase(name, pattern)]


def load_dataset_card(name: str) -> DatasetCard:
    """The card called ``name``.

    Raises:
        ConfigError: there is no such card, or it is wrong.
    """
    if name not in data_set_cards():
        raise unknown("dataset", name, data_set_cards())
    return load_typed(data_set_cards()[name], DatasetCard)


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
    changed = _options({**card.options, **(options or {})}, card)
    dataset = _opened(changed, card)
    if changed == _options(card.options, card):
        _check(dataset, card)
    return dataset


def described(name: str) -> dict[str, Any]:
    """What the card called ``name`` must say of its data as they are now, whether or not it says so already.

    Raises:
        PtqlabError: as :func:`open_dataset`.
    """
    path = data_set_cards()[name]
    has_format = {"image", "parts"} & set(read_mapping(path, DatasetCard))
    card = load_draft(path, DatasetCard, _DRAFT if has_format else {**_DRAFT, "image": _DRAFT_IMAGE})
    dataset = _opened(_options(card.options, card), card)
    parts = {part: found.model_dump(mode="json") for part, found in dataset.parts.items()}
    return {
        **({"image": parts[IMAGE]} if card.image is not None and list(parts) == [IMAGE] else {"parts": parts}),
        "splits": {split: len(found) for split, found in dataset.splits.items()},
        "digest": dataset.digest,
        "determinants": dict(dataset.determinants),
    }


_DRAFT: Mapping[str, Any] = MappingProxyType({"splits": {}, "digest": "0" * 64})
_DRAFT_IMAGE = ImageFormat(height=1, width=1, colour=Colour.RGB)
"""Image format of a card that ``ptqlab digest --write`` has not completed."""


def _options(given: Mapping[str, Any], card: DatasetCard) -> StrictModel:
    return parse(_beside_card(given, card), adapter_of(card.adapter).Options, f"options of dataset {card.name}")


def _beside_card(given: Mapping[str, Any], card: DatasetCard) -> Mapping[str, Any]:
    """Options whose ``folder`` is absolute where it is relative to the card's file.

    It is if it begins with ``./`` or ``../``, or if it is there; else it lies below ``PTQLAB_DATA``.
    """
    folder, file = given.get("folder"), data_set_cards().get(card.name)
    if file is None or not isinstance(folder, str) or Path(folder).is_absolute():
        return given
    place = (file.parent / folder).resolve()
    if not (folder.startswith(_FROM_CARD) or folder in (".", "..") or place.is_dir()):
        return given
    return {**given, "folder": str(place)}


_FROM_CARD = ("./", "../")


def _opened(options: StrictModel, card: DatasetCard) -> Dataset:
    adapter = adapter_of(card.adapter)
    if card.adapter in ADAPTERS:
        return adapter(options)
    with running_own(card.adapter, "dataset adapter"):
        dataset = adapter(options)
    # Its version may not have been raised.
    source = digest_of_own(card.adapter) if is_own(card.adapter) else DATASETS.entry(card.adapter).digest
    dataset.digest = hashlib.sha256(f"{dataset.digest} {source}".encode()).hexdigest()
    dataset.determinants = {**dataset.determinants, "source": source[:12]}
    return dataset


def adapter_of(name: str) -> type[Dataset]:
    """The adapter that a card calls ``name``.

    Raises:
        ConfigError: there is none.
    """
    if is_own(name):
        found = load_own(name, "dataset adapter")
        if not (isinstance(found, type) and issubclass(found, Dataset)):
            raise ConfigError(f"dataset adapter {name!r}: expected a class derived from harness.datasets.Dataset")
        return found
    if name in ADAPTERS:
        return ADAPTERS[name]
    if name not in DATASETS:
        raise unknown("dataset adapter", name, [*DATASETS.allowed(), "module:Class"])
    adapter: type[Dataset] = DATASETS[name]
    return adapter


def _check(dataset: Dataset, card: DatasetCard) -> None:
    """What was opened is what the card promises."""
    counts = {name: len(split) for name, split in dataset.splits.items()}
    if counts != card.splits or dict(dataset.parts) != dict(card.formats):
        raise ConfigError(
            f"dataset {card.name}: its card has splits {dict(card.splits)} of {_shapes(card.formats)}, the options "
            f"give {counts} of {_shapes(dataset.parts)}; {_remedy(dataset, card)}"
        )
    if dataset.digest != card.digest:
        raise CalibrationDataError(
            f"dataset {card.name}: the data have digest {dataset.digest}, its card was written for "
            f"{card.digest}; {_remedy(dataset, card)}"
        )


def _shapes(parts: Mapping[str, PartFormat]) -> str:
    """Shapes for a message; that of an image alone."""
    if list(parts) == [IMAGE]:
        return str(parts[IMAGE].shape)
    return ", ".join(f"{name} {part.shape}" for name, part in parts.items())


def _remedy(dataset: Dataset, card: DatasetCard) -> str:
    """What has changed since the card was written, and what to do about it."""
    before, now = card.determinants, dataset.determinants
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)] if before else []
    changes = ", ".join(f"{name} ({before.get(name, 'none')} -> {now.get(name, 'none')})" for name in names)
    what = f"changed since: {changes}" if changes else "the source data, an option or the adapter has changed"
    file = data_set_cards().get(card.name)
    return f"{what}; if this is intended: ptqlab digest {shlex.quote(str(file or card.name))} --write"


def data_set_cards() -> dict[str, Path]:
    """Files of the data set cards by name."""
    return paths.yaml_files(paths.datasets())
