"""Special functions, in the type of their argument, of a package that nothing else imports."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from engine.ops.core.special import error_function, sigmoid


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_and_types(dtype: type) -> None:
    x = np.array([-200.0, 0.0, 1.0], dtype)
    assert sigmoid(x).dtype == error_function(x).dtype == dtype
    np.testing.assert_allclose(sigmoid(x), [1 / (1 + np.exp(200)), 0.5, 1 / (1 + np.exp(-1))], rtol=1e-6, atol=1e-45)
    np.testing.assert_allclose(error_function(x), [-1.0, 0.0, 0.8427007929497149], rtol=1e-6)


def test_scipy_is_imported_at_the_first_call() -> None:
    code = "import sys, engine.ops.core.special; print('scipy.special' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
