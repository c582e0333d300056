"""Special functions of scipy, loaded when the first of them is called.

scipy.special takes 0.2 s to import, most of it for other array libraries, and a draft needs a handful of values; the
extension module with the functions takes 3 ms by itself.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.deferral import deferring


def sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    """``1 / (1 + exp(-x))`` in the type of ``x``."""
    return np.asarray(_function("expit")(x))


def exponential(x: NDArray[Any]) -> NDArray[Any]:
    """``exp(x)`` in the type of ``x``, rounded right: numpy's vectorised float32 is up to two units beside it.

    The original's is that of the C library, as the last line of golden conversion ``i16_exp`` shows.
    """
    return np.exp(x.astype(np.float64)).astype(x.dtype) if x.dtype == np.float32 else np.exp(x)


def error_function(x: NDArray[Any]) -> NDArray[Any]:
    """``erf(x)`` in the type of ``x``."""
    return np.asarray(_function("erf")(x))


@cache
def _function(name: str) -> np.ufunc:
    """The function ``name`` of scipy.special, from its extension module alone where scipy has it there."""
    package = find_spec("scipy")
    folders = [str(Path(folder) / "special") for folder in (package and package.submodule_search_locations) or ()]
    spec = PathFinder.find_spec(_COMPILED, folders)
    if spec is not None and isinstance(spec.loader, ExtensionFileLoader):
        with suppress(ImportError):
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            found = getattr(module, name, None)
            if isinstance(found, np.ufunc):
                return found
    return public_function(name)


def public_function(name: str) -> np.ufunc:
    """The function ``name`` as scipy.special has it."""
    with deferring():
        from scipy import special

    found: np.ufunc = getattr(special, name)
    return found


_COMPILED = "scipy.special._special_ufuncs"
"""An implementation detail of scipy, which is why its absence changes nothing but the time."""
