"""A PostgreSQL server of a test's own, from the system's packages."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ACCOUNT = "postgres"
"""System account that the server runs under where the test is root, which PostgreSQL refuses to be."""


def find_binaries() -> Path | None:
    """Folder of ``initdb`` and ``postgres``; Debian keeps them off the PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").is_file() and (folder / "pg_ctl").is_file()), None)


@dataclass(frozen=True)
class Postgres:
    """A server on loopback.

    Attributes:
        binaries: folder of its programs.
        folder: of its data, its log and its socket.
        port: where it listens.
        account: system account that it runs under; None: that of the test.
    """

    binaries: Path
    folder: Path
    port: int
    account: str | None

    @property
    def uri(self) -> str:
        """SQLAlchemy URI of an empty database."""
        return f"postgresql+psycopg2://lab@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        """Make the files of the database."""
        self._run("initdb", "--username", "lab", "--auth", "trust", "--no-sync")

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = f"-h 127.0.0.1 -p {self.port} -k {self.folder} -F"
        self._run("pg_ctl", "--log", str(self.folder / "log"), "--options", options, "--wait", "start")

    def stop(self) -> None:
        """End at once, as in a crash: connections break, and transactions that are open are lost."""
        self._run("pg_ctl", "--mode", "immediate", "--wait", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self.binaries / program), "--pgdata", str(self.folder / "data"), *arguments],
            user=self.account,
            cwd=self.folder,
            timeout=120,
            check=True,
            stdout=subprocess.DEVNULL,
        )


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server with an empty database; skips the test where there is no PostgreSQL."""
    pytest.importorskip("psycopg2", reason="the PostgreSQL driver is not installed (extra test)")
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed (apt-get install postgresql)")
    account = ACCOUNT if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="ptqlab-postgres-"))
    if account is not None:
        os.chown(folder, pwd.getpwnam(account).pw_uid, -1)
    made = Postgres(binaries, folder, free_port(), account)
    try:
        made.create()
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A TCP port on loopback that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
