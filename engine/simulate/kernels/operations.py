"""Numbers of the operations of float arithmetic."""

from __future__ import annotations

ADD, SUBTRACT, MULTIPLY, DIVIDE = range(4)
