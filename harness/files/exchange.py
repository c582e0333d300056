"""A store that machines without a common file system share: objects below an fsspec URL, each put whole.

An object of an object store (``s3://``, ``gs://``, ``az://``) appears whole or not at all. A store in a folder
(``file://``, or a plain path) is written as all our files are: to a temporary name, and renamed.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ConfigError, MissingError

_EXTRAS = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
"""The package that a protocol needs."""


@dataclass(frozen=True)
class Exchange:
    """Objects below a URL; many machines may use it at a time.

    Attributes:
        url: of fsspec. Addresses and passwords of servers come from the environment, as its packages document.
    """

    url: str

    def push(self, path: Path, name: str) -> None:
        """Put the file ``path`` as object ``name``, in the place of an older one.

        Raises:
            MissingError: the store cannot be reached or written, or its package is not installed.
        """
        with self._reached("written") as (files, root):
            place = f"{root}/{name}"
            if _is_local(files):
                fresh = Path(f"{place}.{uuid.uuid4().hex}")
                fresh.parent.mkdir(parents=True, exist_ok=True)
                try:
                    shutil.copyfile(path, fresh)
                    fresh.replace(place)
                finally:
                    fresh.unlink(missing_ok=True)
            else:
                files.put_file(str(path), place)

    def pull(self, name: str, path: Path) -> bool:
        """Write object ``name`` to ``path``, atomically; False where there is none.

        Raises:
            MissingError: the store cannot be reached, or its package is not installed.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with self._reached("read") as (files, root):
                try:
                    files.get_file(f"{root}/{name}", str(fresh))
                except FileNotFoundError:
                    return False
            os.replace(fresh, path)
        finally:
            fresh.unlink(missing_ok=True)
        return True

    def names(self, folder: str) -> set[str]:
        """Names of the objects in ``folder``, without it.

        Raises:
            MissingError: the store cannot be reached, or its package is not installed.
        """
        with self._reached("listed") as (files, root):
            files.invalidate_cache()
            try:
                return {str(path).rpartition("/")[2] for path in files.ls(f"{root}/{folder}", detail=False)}
            except FileNotFoundError:
                return set()

    def remove(self, folder: str) -> None:
        """Remove all objects in ``folder``, if there are any.

        Raises:
            MissingError: the store cannot be reached, or its package is not installed.
        """
        with self._reached("cleaned") as (files, root):
            files.invalidate_cache()
            with suppress(FileNotFoundError):
                files.rm(f"{root}/{folder}", recursive=True)

    @contextmanager
    def _reached(self, what: str) -> Iterator[tuple[Any, str]]:
        """File system and path of the store; whatever its package raises becomes one message."""
        import fsspec

        try:
            files, root = fsspec.core.url_to_fs(self.url)
            yield files, str(root).rstrip("/")
        except ImportError as error:
            protocol = self.url.partition("://")[0]
            raise MissingError(f"store {self.url}: pip install {_EXTRAS.get(protocol, protocol)}") from error
        except Exception as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise MissingError(f"store {self.url}: cannot be {what}: {text}") from error


def checked_url(url: str | None) -> str:
    """``url`` of a store, made absolute where it is a path; empty where none is given.

    Raises:
        ConfigError: fsspec knows no such protocol, or it is one that processes cannot share.
    """
    if not url:
        return ""
    from fsspec import available_protocols

    protocol, separator, _ = url.partition("://")
    if not separator:
        return Path(url).resolve().as_uri()
    if protocol == "memory":
        raise ConfigError(f"--store {url}: what is in memory is not shared; allowed are s3://, gs://, az://, file://")
    if protocol not in available_protocols():
        raise ConfigError(f"--store {url}: no such protocol; allowed are s3://, gs://, az://, file:// and a folder")
    return url.rstrip("/")


def _is_local(files: Any) -> bool:
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(files, LocalFileSystem)
