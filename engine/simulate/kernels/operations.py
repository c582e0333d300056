"""Numbers of the operations of float arithmetic, of what a reduction finds, and of recurrent cells."""

from __future__ import annotations

ADD, SUBTRACT, MULTIPLY, DIVIDE, RAISE = range(5)
"""``RAISE``: the first operand, or the second where the first is less."""

SUM, MAXIMUM, FIRST_MAXIMUM = range(3)

LSTM, GRU_OF_STATE, GRU_OF_PRODUCT = range(3)
"""Recurrent cells; the reset gate of a GRU multiplies its state, or the product of weights and state."""
