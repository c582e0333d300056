"""What tests of data sets share: opening an adapter, pictures on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from harness.datasets import ADAPTERS
from harness.files.strict_yaml import parse


def open_with(adapter: str, **options: Any) -> Any:
    """The data set that ``options`` describe."""
    kind = ADAPTERS[adapter]
    return kind(parse(options, kind.Options, "options"))


def picture(path: Path, height: int = 40, width: int = 60, seed: int = 0) -> np.ndarray[Any, Any]:
    """A smooth image, saved without loss; the array."""
    rows, columns = np.mgrid[:height, :width]
    image = np.stack([4 * rows, 3 * columns, np.full_like(rows, 10 * seed)], axis=2).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path)
    return image
