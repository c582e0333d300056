"""How kernels are compiled."""

from __future__ import annotations

from engine.simulate.kernels.jit import compiled


def test_kernels_run_without_the_lock_and_divide_like_numpy() -> None:
    options = compiled(lambda: 0).targetoptions  # type: ignore[attr-defined]  # numba's
    assert (options["nogil"], options["error_model"]) == (True, "numpy")
    assert (options["no_cpython_wrapper"], options["no_cfunc_wrapper"]) == (True, True)
