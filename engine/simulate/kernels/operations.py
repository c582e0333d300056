"""Numbers of the operations of float arithmetic, and of what a reduction finds."""

from __future__ import annotations

ADD, SUBTRACT, MULTIPLY, DIVIDE, RAISE = range(5)
"""``RAISE``: the first operand, or the second where the first is less."""

SUM, MAXIMUM, FIRST_MAXIMUM = range(3)
