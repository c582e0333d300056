"""Rows of the parameters of element-wise operators, pools and reductions."""

from __future__ import annotations

X_SHIFT, E_SCALE, E_SHIFT, OFFSET, ACCU_SHIFT, SCALE, HALF, OUT_SHIFT = range(8)
SIDE_BY_SIDE = 32
"""Elements of several short rows that are added at once."""
LOW_16, HIGH_16 = -32768, 32767
"""What sums are narrowed to before they are scaled."""
