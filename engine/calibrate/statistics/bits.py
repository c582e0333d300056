"""What the observers and their compiled loops share: types of their arrays, sizes of their buffers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.int32]
"""Bit patterns of float32 numbers."""
Values = NDArray[np.float32]

BLOCK = 128
"""Magnitudes that are looked through before any is kept."""
LANES = 4
"""Copies of a histogram that take turns."""
