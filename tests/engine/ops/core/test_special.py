"""Special functions, in the type of their argument, of a package that is slow to import."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from engine.ops.core import special
from engine.ops.core.special import error_function, public_function, sigmoid


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_and_types(dtype: type) -> None:
    x = np.array([-200.0, 0.0, 1.0], dtype)
    assert sigmoid(x).dtype == error_function(x).dtype == dtype
    np.testing.assert_allclose(sigmoid(x), [1 / (1 + np.exp(200)), 0.5, 1 / (1 + np.exp(-1))], rtol=1e-6, atol=1e-45)
    np.testing.assert_allclose(error_function(x), [-1.0, 0.0, 0.8427007929497149], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_are_those_of_scipy_to_the_last_bit(dtype: type) -> None:
    x = np.random.default_rng(41).normal(0, 9, 20_000).astype(dtype)
    np.testing.assert_array_equal(sigmoid(x), public_function("expit")(x))
    np.testing.assert_array_equal(error_function(x), public_function("erf")(x))


def test_without_the_compiled_module_the_public_package_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(special, "_COMPILED", "scipy.special._no_such_module")
    special._function.cache_clear()
    try:
        assert special._function("erf") is public_function("erf")
    finally:
        special._function.cache_clear()


def test_scipy_special_is_not_imported_for_them() -> None:
    code = "import sys, numpy; from engine.ops.core.special import sigmoid; print(sigmoid(numpy.zeros(1))[0])"
    code += "; print('scipy.special' in sys.modules); from scipy.special import expit; print(expit(0.0))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["0.5", "False", "0.5"]
