"""Data sets by name: ``open_dataset("mnist").split("calibration").images(0, 100)``."""

from harness.datasets.base import (
    ArrayFormat,
    Colour,
    Dataset,
    ImageFormat,
    Images,
    PartFormat,
    Samples,
    SceneTarget,
    Split,
    Targets,
    one_by_one,
    picture_of,
)
from harness.datasets.registry import ADAPTERS, DatasetCard, list_dataset_cards, load_dataset_card, open_dataset

__all__ = [
    "ADAPTERS",
    "ArrayFormat",
    "Colour",
    "Dataset",
    "DatasetCard",
    "ImageFormat",
    "Images",
    "PartFormat",
    "Samples",
    "SceneTarget",
    "Split",
    "Targets",
    "list_dataset_cards",
    "load_dataset_card",
    "one_by_one",
    "open_dataset",
    "picture_of",
]
