"""What a family of draws is, and what lies around the layer that it shows."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from engine.conformance.hunt.grammar.drawing import Drawing

Layer = Callable[[Drawing, str], str]
"""Takes a map, shape (1, channels, rows, columns), or tokens, shape (1, tokens, width), and gives one."""

Shape = Callable[[random.Random], tuple[int, ...]]


@dataclass(frozen=True)
class DrawFamily:
    """Draws that show one thing.

    Attributes:
        shape: of the input.
        build: the network behind it.
    """

    shape: Shape
    build: Layer


def between(layer: Layer) -> Layer:
    """``layer`` between two convolutions of one tap."""

    def build(net: Drawing, x: str) -> str:
        y = layer(net, net.op("Relu", net.convolve(x, net.channels(x))))
        return net.convolve(y, net.pick(8, 16, 32)) if len(net.dims(y)) == 4 else y

    return build


def between_dense(layer: Layer) -> Layer:
    """``layer`` between two dense layers over the last axis."""

    def build(net: Drawing, x: str) -> str:
        y = layer(net, net.op("Relu", net.dense(x, net.dims(x)[-1])))
        return net.dense(y, net.pick(16, 32))

    return build


def one_of(*blocks: Layer) -> Layer:
    def build(net: Drawing, x: str) -> str:
        block = net.pick(*blocks)
        net.blocks.append(block.__name__)
        return block(net, x)

    return build
