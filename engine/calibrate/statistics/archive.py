"""Named arrays in a file ``.npz`` with their digest: written whole or not at all, read without trust."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.ir import write_atomically

Arrays = dict[str, NDArray[Any]]

DAMAGED = (
    *(OSError, EOFError, ValueError, KeyError, IndexError, RuntimeError, MemoryError, OverflowError),
    *(SyntaxError, TokenError, zipfile.BadZipFile, zlib.error, struct.error),
)
"""What a damaged archive, or one of another kind, can raise while it is read and made sense of."""

_MAGIC = b"PK\3\4"
_DIGEST = "digest"


def arrays_digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of names, types, shapes and values, hexadecimal."""
    sha = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        sha.update(f"{name} {array.dtype} {array.shape}\n".encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()


def write_archive(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], compress: bool) -> Path:
    """Write ``arrays`` by name, with their SHA-256.

    Args:
        path: of the ``.npz`` file; written under a temporary name and renamed.
        arrays: of numbers, any shape.
        compress: whether to deflate them.

    Returns:
        ``path``.

    Raises:
        OutputError: the file cannot be written.
    """
    buffer = io.BytesIO()
    save = np.savez_compressed if compress else np.savez
    save(buffer, allow_pickle=False, **arrays, **{_DIGEST: np.asarray(arrays_digest(arrays))})
    return write_atomically(path, buffer.getvalue())


def read_archive(path: str | os.PathLike[str]) -> Arrays:
    """The arrays of a file, all of them.

    Raises:
        One of :data:`DAMAGED`: the file is missing, damaged or no archive of arrays.
    """
    with open(path, "rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("not an archive of arrays")
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    written = str(arrays.pop(_DIGEST))
    if arrays_digest(arrays) != written:
        raise ValueError("its content has changed since it was written")
    return arrays
