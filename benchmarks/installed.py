"""How processes are started that measure an installation: Python finds their modules compiled, as pip leaves them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def environment(bytecode: Path) -> Mapping[str, str]:
    """This process's environment with this checkout's modules, whose bytecode is kept in the folder ``bytecode``.

    Where ``PYTHONDONTWRITEBYTECODE`` is set, a checkout is compiled anew by every process, which takes 0.4 s of a
    check. The first process compiles and is not to be measured.
    """
    own = {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    return {**os.environ, **own}
