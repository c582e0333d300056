"""Layers that move: tokens, planes, windows, channels that become pixels."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from engine.conformance.hunt.grammar import attention
from engine.conformance.hunt.grammar.drawing import Drawing
from research.draws.family import DrawFamily, between, between_dense
from research.draws.sizes import even_map, few_pixels, few_tokens, folding_map, many_tokens, narrow_map, small_map


def _as_tokens(net: Drawing, x: str) -> str:
    """The pixels of a map as tokens, dense layer, perhaps the map again."""
    (height, width), tokens = net.size(x), net.tokens(x)
    tokens = net.op("Relu", net.dense(tokens, net.dims(tokens)[2]))
    return net.image(tokens, height, width) if net.chance(0.6) else tokens


def _flattened(net: Drawing, x: str) -> str:
    """A map in NCHW in another shape: planes joined or cut, or groups of channels."""
    _, channels, height, width = net.dims(x)
    kind = net.pick("planes", "line", "groups", "swapped")
    if kind == "planes":
        return net.reshape(x, 1, 1, channels, height * width)
    if kind == "line":
        return net.reshape(x, 1, channels * height, width, 1)
    if kind == "groups" and channels % 4 == 0:
        return net.reshape(x, 4, channels // 4, height, width)
    return net.transpose(x, *net.pick((0, 2, 1, 3), (0, 3, 2, 1), (0, 1, 3, 2), (0, 2, 3, 1)))


def _regrouped(net: Drawing, x: str) -> str:
    """Planes of a map that become rows of several planes, and back; larger blocks of pixels than of two."""
    _, channels, height, width = net.dims(x)
    if net.chance(0.4):
        block = net.pick(3, 3, 4)
        return net.op("DepthToSpace", net.convolve(x, channels * block * block), blocksize=block, mode="CRD")
    rows = net.pick(*(rows for rows in (1, 2, 3, 4, 8) if channels % rows == 0 and rows < channels))
    length = channels * height * width // rows
    x = net.op("Relu", net.dense(net.reshape(x, 1, rows, length), length if rows > 1 and length <= 1024 else 16))
    return net.reshape(x, 1, channels, height, width) if net.dims(x)[2] == length else x


def _shuffled(net: Drawing, x: str) -> str:
    """Channels shuffled, pixels to channels, channels to pixels."""
    _, channels, height, width = net.dims(x)
    kind = net.pick("shuffle", "to depth", "to space")
    if kind == "to depth" and height % 2 == width % 2 == 0:
        return net.op("SpaceToDepth", x, blocksize=2)
    if kind == "to space" and channels % 4 == 0:
        return net.op("DepthToSpace", x, blocksize=2, mode=net.pick("CRD", "DCR"))
    groups = 2 if channels % 2 == 0 else 1
    y = net.transpose(net.reshape(x, 1, groups, channels // groups, height, width), 0, 2, 1, 3, 4)
    return net.reshape(y, 1, channels, height, width)


def _folded(net: Drawing, x: str) -> str:
    """Pixels of what enters, or of what a layer computed, become channels: SpaceToDepth, or slices that are joined."""
    if net.channels(x) >= 8:
        x = net.op("Relu", net.convolve(x, net.channels(x)))
    if net.chance(0.5):
        y = net.op("SpaceToDepth", x, blocksize=2)
    else:
        height, width = net.size(x)
        rows = [net.cut(x, first, height, 2, 2) for first in (0, 1)]
        y = net.concat(*(net.cut(part, first, width, 3, 2) for first in (0, 1) for part in rows))
    return net.convolve(net.op("Relu", net.convolve(y, 16)), 16)


def _heads(net: Drawing, x: str) -> str:
    """Tokens cut into heads and back, in rank 4."""
    _, tokens, width = net.dims(x)
    heads = net.pick(*(count for count in (1, 2, 3, 4, 6, 8) if width % count == 0))
    y = net.transpose(net.reshape(x, 1, tokens, heads, width // heads), 0, 2, 1, 3)
    y = net.op("Relu", net.op("Mul", y, net.scalar(0.7)))
    return net.reshape(net.transpose(y, 0, 2, 1, 3), 1, tokens, width)


def _cut_heads(net: Drawing, x: str) -> str:
    """Tokens cut into heads, a dense layer over each, and back: nothing cancels."""
    _, tokens, width = net.dims(x)
    heads = net.pick(*(count for count in (2, 3, 4, 6, 8, 12) if width % count == 0))
    y = net.reshape(x, 1, tokens, heads, width // heads)
    y = net.op("Relu", net.dense(net.transpose(y, 0, 2, 1, 3), net.pick(8, 16, width // heads)))
    return net.reshape(net.transpose(y, 0, 2, 1, 3), 1, tokens, -1)


def _columns(net: Drawing, x: str) -> str:
    """Attention as PyTorch has it: tokens in front of the batch, one below the other."""
    _, tokens, width = net.dims(x)
    heads = net.pick(*(count for count in (2, 3, 4, 6, 8) if width % count == 0 and width // count >= 8))
    y = net.transpose(x, 1, 0, 2)

    def part() -> str:
        rows = net.reshape(net.dense(y, width), tokens, heads, width // heads)
        return net.reshape(net.transpose(rows, 1, 0, 2), 1, heads, tokens, width // heads)

    mixed = attention.attend(net, part(), part(), part())
    joined = net.reshape(net.transpose(mixed, 2, 0, 1, 3), tokens, width)
    return net.transpose(net.reshape(net.dense(joined, width), tokens, 1, width), 1, 0, 2)


def _planes(net: Drawing, x: str) -> str:
    """The planes of a map as rows, a dense layer over the pixels of each, and back: attention over channels."""
    _, channels, height, width = net.dims(x)
    y = net.op("Relu", net.dense(net.reshape(x, 1, 1, channels, height * width), height * width))
    return net.reshape(y, 1, channels, height, width)


def _windows(net: Drawing, x: str) -> str:
    """A map in channels last cut into windows and back."""
    _, channels, height, width = net.dims(x)
    side = next(each for each in (7, 8, 5, 4, 2, 1) if height % each == 0 and width % each == 0)
    down, across = height // side, width // side
    y = net.transpose(x, 0, 2, 3, 1)
    y = net.transpose(net.reshape(y, 1, down, side, across, side, channels), 0, 1, 3, 2, 4, 5)
    y = net.op("Relu", net.dense(net.reshape(y, down * across, side * side, channels), channels))
    if net.chance(0.4):
        return y
    y = net.transpose(net.reshape(y, 1, down, across, side, side, channels), 0, 1, 3, 2, 4, 5)
    return net.transpose(net.reshape(y, 1, height, width, channels), 0, 3, 1, 2)


def _swapped(net: Drawing, x: str) -> str:
    """Tokens and channels change places, a dense layer, and back: mixers."""
    y = net.transpose(x, 0, 2, 1)
    return net.transpose(net.op("Relu", net.dense(y, net.dims(y)[2])), 0, 2, 1)


MOVEMENTS: Mapping[str, DrawFamily] = MappingProxyType(
    {
        "tokens": DrawFamily(narrow_map, between(_as_tokens)),
        "flattened": DrawFamily(narrow_map, between(_flattened)),
        "regrouped": DrawFamily(small_map, between(_regrouped)),
        "shuffled": DrawFamily(even_map, between(_shuffled)),
        "folded": DrawFamily(folding_map, _folded),
        "heads": DrawFamily(many_tokens, between_dense(_heads)),
        "cut_heads": DrawFamily(many_tokens, between_dense(_cut_heads)),
        "columns": DrawFamily(few_tokens, between_dense(_columns)),
        "planes": DrawFamily(few_pixels, between(_planes)),
        "windows": DrawFamily(even_map, between(_windows)),
        "swapped": DrawFamily(many_tokens, between_dense(_swapped)),
    }
)
"""Families of movements, by name."""
