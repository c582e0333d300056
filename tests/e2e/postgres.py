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


@contextmanager
def postgres() -> Iterator[str]:
    """SQLAlchemy URI of an empty database on loopback; skips the test where there is no PostgreSQL."""
    pytest.importorskip("psycopg2", reason="the PostgreSQL driver is not installed (extra test)")
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed (apt-get install postgresql)")
    account = ACCOUNT if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="ptqlab-postgres-"))
    if account is not None:
        os.chown(folder, pwd.getpwnam(account).pw_uid, -1)

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [str(binaries / program), *arguments],
            user=account,
            cwd=folder,
            timeout=120,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    data, port = str(folder / "data"), free_port()
    try:
        run("initdb", "--pgdata", data, "--username", "lab", "--auth", "trust", "--no-sync")
        options = f"-h 127.0.0.1 -p {port} -k {folder} -F"
        run("pg_ctl", "--pgdata", data, "--log", str(folder / "log"), "--options", options, "--wait", "start")
        try:
            yield f"postgresql+psycopg2://lab@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "--pgdata", data, "--mode", "immediate", "--wait", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A TCP port on loopback that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
