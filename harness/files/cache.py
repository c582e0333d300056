"""Content-addressed files: every stage's result under the hash of what determines it, computed once.

``<root>/<kind>/<key><suffix>``; a file is written to a temporary name and renamed, so what exists is whole. Its SHA-256
lies beside it: what has changed since is computed anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from engine.errors import OutputError
from engine.ir import write_atomically
from engine.sealed import sealed, unsealed

if TYPE_CHECKING:
    from harness.files.exchange import Exchange

logger = logging.getLogger(__name__)

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)
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
        if not _is_whole(path):
            with locked(path):
                if not self.has(path):
                    result = compute()
                    codec.save(result, path)
                    self.share(path)
                    return result
        with suppress(OSError):  # a folder that cannot be written is read all the same
            os.utime(path)  # what was used lately is not removed
            if _digest_file(path).exists():
                os.utime(_digest_file(path))
            else:
                self.share(path)  # whoever computed it was cut off
        found: T = codec.load(path)
        return found

    def has(self, path: Path) -> bool:
        """Whether the result at ``path`` is there as it was written, or was computed elsewhere and is there now.

        One that has changed since is reported and counts as none.

        Raises:
            MissingError: the exchange cannot be reached.
        """
        if _is_whole(path):
            return True
        if path.is_file():
            logger.warning("%s: is damaged (its SHA-256 differs) and is recomputed", path)
            return False
        if self.exchange is None or not self.exchange.pull(self._name(path), path):
            return False
        self.exchange.pull(self._name(_digest_file(path)), _digest_file(path))
        return _is_whole(path)

    def share(self, path: Path) -> None:
        """Keep the digest of the result at ``path``, which was just computed, and leave both for other machines.

        Raises:
            MissingError: the exchange cannot be reached.
        """
        digests = _digest_file(path)
        write_atomically(digests, _digest(path).encode())
        if self.exchange is not None:
            for each in (digests, path):
                self.exchange.push(each, self._name(each))

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root.parent).as_posix()


def _digest_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _is_whole(path: Path) -> bool:
    """Whether ``path`` is there with the content of its digest; one without a recorded digest is taken as it is."""
    try:
        return path.is_file() and _digest_file(path).read_bytes() == _digest(path).encode()
    except FileNotFoundError:
        return path.is_file()
    except OSError:
        return False


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of ``path``; the system releases it should this process die.

    Raises:
        OutputError: the file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        take_lock(lock, path)
        yield


def take_lock(lock: IO[Any], path: Path, *, wait: bool = True) -> None:
    """Lock the open file ``lock``, which guards ``path``.

    Raises:
        BlockingIOError: somebody else has it, and ``wait`` says not to wait.
        OutputError: the file system has no locks.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be locked ({error.strerror}); put the working directory on a file system with locks"
        ) from error


def save_arrays(arrays: Arrays, path: Path) -> None:
    """Write an ``.npz`` file, atomically and without pickle."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getvalue())


def load_arrays(path: Path | IO[bytes]) -> dict[str, NDArray[Any]]:
    """What :func:`save_arrays` wrote."""
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def save_json(model: BaseModel, path: Path) -> None:
    """Write a pydantic model as JSON that carries its digest, atomically."""
    write_atomically(path, sealed(model.model_dump_json(indent=1)))


def load_json(kind: type[Model], path: Path) -> Model:
    """What :func:`save_json` wrote.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no ``kind``, or has changed since; the latter is reported.
    """
    try:
        return kind.model_validate_json(unsealed(path.read_bytes()))
    except ValidationError:
        raise
    except ValueError as error:
        logger.warning("%s: %s", path, error)
        raise
