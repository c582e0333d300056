"""Content-addressed files: every stage's result under the hash of what determines it, computed once.

``<root>/<kind>/<key><suffix>``; a file is written to a temporary name and renamed, so what exists is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from engine.ir import write_atomically

if TYPE_CHECKING:
    from harness.exchange import Exchange

T = TypeVar("T")
Arrays = Mapping[str, NDArray[Any]]

KEY_LENGTH = 24
"""Hexadecimal digits of a key: 96 bits, enough that no two contents ever share one."""


def content_key(*parts: object) -> str:
    """Key of ``parts``: JSON values or pydantic models; equal content gives equal keys on every machine."""
    plain = [part.model_dump(mode="json") if isinstance(part, BaseModel) else part for part in parts]
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:KEY_LENGTH]


@dataclass(frozen=True)
class Codec:
    """How one kind of result becomes a file and back.

    Attributes:
        suffix: of the file's name.
        save: writes a result to a path, atomically.
        load: reads what ``save`` wrote.
    """

    suffix: str
    save: Callable[[Any, Path], object]
    load: Callable[[Path], Any]


@dataclass(frozen=True)
class Cache:
    """A folder of results; many processes may use it at a time.

    Attributes:
        root: the folder.
        exchange: where other machines leave theirs and find these; None where all see the folder.
    """

    root: Path
    exchange: Exchange | None = None

    def path(self, kind: str, key: str, suffix: str) -> Path:
        """Where the result ``key`` of stage ``kind`` is or will be."""
        return self.root / kind / f"{key}{suffix}"

    def get(self, kind: str, key: str, codec: Codec, compute: Callable[[], T]) -> T:
        """The result ``key`` of stage ``kind``: read if it is there, else computed and kept.

        While one process computes it, others that want it wait.
        """
        path = self.path(kind, key, codec.suffix)
        if not path.is_file():
            with locked(path):
                if not self.has(path):
                    result = compute()
                    codec.save(result, path)
                    self.share(path)
                    return result
        with suppress(OSError):  # a folder that cannot be written is read all the same
            os.utime(path)  # what was used lately is not removed
        found: T = codec.load(path)
        return found

    def has(self, path: Path) -> bool:
        """Whether the result at ``path`` is there, or was computed elsewhere and is there now.

        Raises:
            MissingError: the exchange cannot be reached.
        """
        return path.is_file() or (self.exchange is not None and self.exchange.pull(self._name(path), path))

    def share(self, path: Path) -> None:
        """Leave the result at ``path`` for other machines.

        Raises:
            MissingError: the exchange cannot be reached.
        """
        if self.exchange is not None:
            self.exchange.push(path, self._name(path))

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root.parent).as_posix()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of ``path``; the system releases it should this process die."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def save_arrays(arrays: Arrays, path: Path) -> None:
    """Write an ``.npz`` file, atomically and without pickle."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getvalue())


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """What :func:`save_arrays` wrote."""
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def save_json(model: BaseModel, path: Path) -> None:
    """Write a pydantic model as JSON, atomically."""
    write_atomically(path, model.model_dump_json(indent=1).encode())
