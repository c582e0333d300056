"""What the observers, methods and their compiled loops share: types of arrays, sizes of buffers."""

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
COUNTED = 1024
"""Values whose bins are found at a time."""
LEVELS = 128
"""Levels of the quantised distribution of ``kl``: those of an int8 magnitude."""
WINDOW = 9
"""Cuts of ``kl`` that a mean of divergences is over."""
