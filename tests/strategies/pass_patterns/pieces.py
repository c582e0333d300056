"""What several patterns begin with or are made of."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.strategies.patterns import Draw, Network

Map = tuple[int, int, int, int]


def feature_map(draw: Draw, net: Network, low: int = 1, high: int = 8) -> tuple[str, Map]:
    """An input of rank 4 and its shape; sides from ``low`` to ``high``, sometimes behind an activation."""
    shape = (
        draw(st.integers(1, 2)),
        draw(st.integers(1, 6)),
        draw(st.integers(low, high)),
        draw(st.integers(low, high)),
    )
    return activated(draw, net, net.input(*shape)), shape


def activated(draw: Draw, net: Network, x: str) -> str:
    op_type = draw(st.sampled_from(("", "Relu", "Tanh")))
    return net.op(op_type, x) if op_type else x


def commuted(draw: Draw, net: Network, op_type: str, a: str, b: str) -> str:
    return net.op(op_type, *((a, b) if draw(st.booleans()) else (b, a)))
