"""How kernels are compiled, and how kept code is recognised."""

from __future__ import annotations

import hashlib
from pathlib import Path

import engine.simulate.kernels
from engine.simulate.kernels.jit import compiled, sources_digest


def test_the_digest_is_of_all_sources_in_order() -> None:
    (folder,) = map(Path, engine.simulate.kernels.__path__)
    content = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    assert sources_digest() == hashlib.sha256(content).hexdigest()


def test_kernels_run_without_the_lock_and_divide_like_numpy() -> None:
    options = compiled(lambda: 0).targetoptions  # type: ignore[attr-defined]  # numba's
    assert (options["nogil"], options["error_model"]) == (True, "numpy")
    assert (options["no_cpython_wrapper"], options["no_cfunc_wrapper"]) == (True, True)
