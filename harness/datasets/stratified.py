"""Assignment of labelled samples to splits: seeded, disjoint, every class in the same proportion."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from engine.errors import ConfigError
from harness.datasets.base import ArraySplit, Dataset, Images
from harness.files.strict_yaml import StrictModel


def stratified_splits(
    classes: NDArray[np.int64], per_class: Mapping[str, int], seed: int
) -> dict[str, NDArray[np.int64]]:
    """Indices of each split, classes in rotation (0, 1, …, 0, 1, …), so that every prefix of a split is balanced.

    Args:
        classes: int64, shape (samples,).
        per_class: samples of each class, by split.
        seed: of ``RandomState``, whose streams numpy guarantees never to change (``Generator``'s may).

    Raises:
        ConfigError: a class has fewer samples than the splits need together.
    """
    random = np.random.RandomState(seed)
    wanted = sum(per_class.values())
    shuffled = [random.permutation(np.flatnonzero(classes == label)) for label in np.unique(classes)]
    if smallest := [len(members) for members in shuffled if len(members) < wanted]:
        raise ConfigError(f"splits of {dict(per_class)} samples per class need {wanted}; a class has {min(smallest)}")
    ends = np.cumsum(list(per_class.values()))
    return {
        name: np.stack([members[end - count : end] for members in shuffled], axis=1).reshape(-1)
        for (name, count), end in zip(per_class.items(), ends, strict=True)
    }


class StratifiedOptions(StrictModel):
    """How the samples of each class are shared out.

    Attributes:
        seed: of the shuffle before the cut.
        train, calibration, evaluation: samples of each class.
    """

    seed: int = Field(default=2024, ge=0, lt=2**32)
    train: int = Field(ge=0)
    calibration: int = Field(ge=1)
    evaluation: int = Field(ge=1)


class StratifiedDataset(Dataset):
    """Images with classes that are in memory, as many of each class in a split."""

    _splits: Mapping[str, ArraySplit]

    @property
    def splits(self) -> Mapping[str, ArraySplit]:
        """``train``, ``calibration``, ``evaluation``."""
        return MappingProxyType(dict(self._splits))

    def _share_out(self, options: StratifiedOptions, images: Images, classes: NDArray[np.int64], source: str) -> None:
        """Set the splits, and the digest, in which ``source`` stands for the samples themselves."""
        per_class = {"train": options.train, "calibration": options.calibration, "evaluation": options.evaluation}
        indices = stratified_splits(classes, per_class, options.seed)
        self._splits = {name: ArraySplit(name, images[chosen], classes[chosen]) for name, chosen in indices.items()}
        shares = {name: chosen.tolist() for name, chosen in indices.items()}
        self.digest = self._digest(options, {"source": source, "splits": shares})
