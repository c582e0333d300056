"""Known weaknesses of the oldest versions that ``pyproject.toml`` allows: ``python .ci/lower_bounds.py``.

Every dependency at its lower bound goes to ``pip-audit`` (``pip install pip-audit``). Where its data cannot be reached,
nothing is checked, and one line says so. Exit code 1: a bound allows a version with a known weakness (raise it), or one
of them is unknown there.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterable
from pathlib import Path

DATA = "https://pypi.org/pypi/pillow/10.4.0/json"
"""One of the addresses that pip-audit asks; mirrors of packages alone do not have it."""
SECONDS = 10
EXTRAS = ("dask", "s3", "images")
"""Extras that are installed with ptqlab; those of tests and peers are for its makers."""


def pinned(requirements: Iterable[str]) -> list[str]:
    """``name==version`` of the lower bounds of ``requirements``; what has none is left out."""
    found = (re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*[>=]=\s*([0-9][^,;\s]*)", each) for each in requirements)
    return [f"{match[1]}=={match[2]}" for match in found if match]


def lower_bounds(pyproject: Path) -> list[str]:
    """Those of ptqlab and of the extras :data:`EXTRAS`."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return pinned([*project["dependencies"], *(each for name in EXTRAS for each in extras[name])])


def reachable(url: str = DATA) -> bool:
    """Whether there is a network with the data in it."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as reply:  # noqa: S310 - the address above
            return b'"vulnerabilities"' in reply.read()
    except OSError:
        return False


def main() -> int:
    """Check; the exit code."""
    bounds = lower_bounds(Path(__file__).resolve().parents[1] / "pyproject.toml")
    if not reachable():
        sys.stdout.write(f"skipped: the data of pip-audit ({DATA}) cannot be reached; {len(bounds)} bounds unchecked\n")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bounds.txt"
        file.write_text("\n".join(bounds) + "\n", encoding="utf-8")
        audit = [
            sys.executable,
            "-m",
            "pip_audit",
            "--strict",
            "--no-deps",
            "--disable-pip",
            "--requirement",
            str(file),
        ]
        return subprocess.run(audit, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
