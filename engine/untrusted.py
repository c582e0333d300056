"""Arrays and images from files of others: any fault is a ValueError, and nothing large is allocated."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from engine.limits import beyond, limit

if TYPE_CHECKING:
    from PIL.Image import Image

_BAD_NPY = (OSError, ValueError, TypeError, SyntaxError, TokenError, EOFError, MemoryError, RecursionError)
"""What numpy raises for damaged headers, which it parses as Python literals."""


NUMBERS = "fiub"
"""Kinds of numpy types: floats, integers, truth values."""


def read_npy(path: Path, kinds: str = NUMBERS) -> NDArray[Any]:
    """The array of a ``.npy`` file, of the shape that the file gives.

    Args:
        path: the file.
        kinds: of the types that are expected, as :attr:`numpy.dtype.kind` has them.

    Raises:
        ValueError: it is no such file, or holds less than its header says; nothing of that size is allocated before.
    """
    try:
        with path.open("rb") as stream:
            _check_npy_header(stream, path.stat().st_size, kinds)
            stream.seek(0)
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    except _BAD_NPY as error:
        raise ValueError(f"not a readable .npy file ({error})") from error


def _check_npy_header(stream: BinaryIO, size: int, kinds: str) -> None:
    """Refuse arrays of other kinds, and what holds less than it says."""
    version = np.lib.format.read_magic(stream)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(stream)
    if dtype.kind not in kinds:
        raise ValueError(f"it holds {dtype}, not one array of numbers{' or texts' if 'U' in kinds else ''}")
    if min(shape, default=1) < 0 or prod(shape) * dtype.itemsize > size - stream.tell():
        raise ValueError(f"it holds less than its shape {shape} of {dtype} needs")


IMAGE_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats of images that are read, as Pillow names them; its readers of rarer ones never see a file."""


@contextmanager
def opened_image(path: Path) -> Iterator[Image]:
    """An image file of :data:`IMAGE_FORMATS` with its pixels read; if it is no image, the context raises a ValueError.

    Pillow's warnings of wrong metadata, which do not concern the pixels, and of sizes, for which ptqlab has its
    own limit, are not shown.
    """
    from PIL.Image import DecompressionBombWarning
    from PIL.Image import open as open_image

    for category in (UserWarning, DecompressionBombWarning):
        warnings.filterwarnings("ignore", category=category, module=r"PIL\.")
    with ExitStack() as stack:
        try:
            image = stack.enter_context(open_image(path, formats=IMAGE_FORMATS))
            if image.width * image.height > limit("IMAGE_PIXELS"):
                raise ValueError(f"{image.width} x {image.height}: {beyond('IMAGE_PIXELS')}")
            image.load()
        except Exception as error:  # Pillow's readers raise what damaged content leads to, such as a TypeError
            raise ValueError(f"not a readable image ({error})") from error
        yield image
