"""SHA-256 of the files of a finished trial, kept beside them as ``sha256sum`` writes them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from engine.errors import ConfigError
from engine.ir import write_atomically
from engine.sealed import DAMAGED

SUMS_FILE = "SHA256SUMS"


class DamagedError(ConfigError):
    """A file of a trial is not what was written: names it."""


def write_sums(folder: Path) -> None:
    """Keep the digests of all files in ``folder``, but not of those in folders there."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name != SUMS_FILE]
    sums = [f"{_digest(path.read_bytes())}  {path.name}\n" for path in files]
    write_atomically(folder / SUMS_FILE, "".join(sums).encode())


def read_checked(path: Path) -> bytes:
    """The content of a trial's file. A folder of a version that kept no digests is taken as it is.

    Raises:
        OSError: it cannot be read.
        DamagedError: it is not what was written.
    """
    content = path.read_bytes()
    sums = _sums(path.parent)
    if sums and sums.get(path.name) != _digest(content):
        raise DamagedError(f"{path}: {DAMAGED}; run the suite again")
    return content


def check_all(folder: Path) -> None:
    """Check all files of a trial; raises as :func:`read_checked`."""
    for name in _sums(folder):
        read_checked(folder / name)


def _sums(folder: Path) -> dict[str, str]:
    path = folder / SUMS_FILE
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n")
    except FileNotFoundError:
        return {}
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    if any("/" in name or not name for name in sums):
        raise DamagedError(f"{path}: is damaged; run the suite again")
    return sums


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
