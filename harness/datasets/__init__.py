"""Data sets by name: ``open_dataset("mnist").split("calibration").images(0, 100)``."""

from harness.datasets.base import Colour, Dataset, ImageFormat, Images, SceneTarget, Split, Targets
from harness.datasets.registry import ADAPTERS, DatasetCard, list_dataset_cards, load_dataset_card, open_dataset

__all__ = [
    "ADAPTERS",
    "Colour",
    "Dataset",
    "DatasetCard",
    "ImageFormat",
    "Images",
    "SceneTarget",
    "Split",
    "Targets",
    "list_dataset_cards",
    "load_dataset_card",
    "open_dataset",
]
