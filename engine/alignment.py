"""Memory of arrays that ONNX Runtime reads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 16
"""Bytes. ONNX Runtime sums rows from the first address that is a multiple of this (``ReduceSum``, ``ReduceMean``,
``InstanceNormalization``; ONNX Runtime 1.32), so that the last bits depend on where an array begins. What it allocates
itself, and what NumPy allocates, begins at such an address; a sample of several may not."""


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """``array``, or a copy of it where it does not begin at a multiple of :data:`ALIGNMENT` bytes."""
    address: int = array.__array_interface__["data"][0]
    return array if address % ALIGNMENT == 0 else np.array(array, order="C")
