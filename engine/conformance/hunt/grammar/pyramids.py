"""Ways down and up again: encoders with skips, U-Nets, feature pyramids, enlargement by channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.conformance.hunt.grammar.drawing import Drawing

Up = Callable[[Drawing, str, int, int], str]
"""Takes a map, and the rows and columns it is to have: twice those it has."""


# -- ups -------------------------------------------------------------------------------------------------------------


def nearest_up(net: Drawing, x: str, height: int, width: int) -> str:
    """Resize to the nearest pixel."""
    return net.resize(x, height, width)


def linear_up(net: Drawing, x: str, height: int, width: int) -> str:
    """Bilinear Resize."""
    return net.resize(x, height, width, "linear")


def transposed_up(net: Drawing, x: str, height: int, width: int) -> str:
    """A transposed convolution: 2 x 2, 4 x 4 with pads, or 3 x 3 with ``output_padding``; by channel now and then."""
    given = net.channels(x)
    made = max(4, given // 2)
    kernel, pads, more = net.pick((2, 0, 0), (4, 1, 0), (3, 1, 1))
    group = 1
    if net.chance(0.15):
        group = made = given
    weight = net.normal(given, made // group, kernel, kernel, scale=given**-0.5)
    extra = {"output_padding": [more] * 2} if more else {}
    bias = [net.normal(made, scale=0.1)] if net.chance(0.8) else []
    sides = {"kernel_shape": [kernel] * 2, "strides": [2, 2], "pads": [pads] * 4}
    return net.op("ConvTranspose", x, weight, *bias, group=group, dilations=[1, 1], **sides, **extra)


def shuffled_up(net: Drawing, x: str, height: int, width: int) -> str:
    """PixelShuffle behind a convolution: DepthToSpace, or Reshapes and a Transpose of rank 6."""
    made = max(4, net.channels(x) // 2)
    y = net.convolve(x, 4 * made, net.pick(1, 3))
    return pixel_shuffle(net, y, 2)


def guided_up(net: Drawing, x: str, height: int, width: int) -> str:
    """CARAFE-like: an enlarged map times an enlarged gate."""
    gate = net.op("Sigmoid", net.convolve(x, 1, 3))
    return net.op("Mul", net.resize(x, height, width), net.resize(gate, height, width, "linear"))


UPS: tuple[Up, ...] = (*(nearest_up, linear_up, transposed_up) * 4, shuffled_up, guided_up)


def pixel_shuffle(net: Drawing, x: str, factor: int) -> str:
    """``factor`` times as many rows and columns from ``factor`` squared as many channels."""
    channels, (height, width) = net.channels(x) // factor**2, net.size(x)
    if net.opset >= 11 and net.chance(0.7):
        return net.op("DepthToSpace", x, blocksize=factor, mode=net.pick("CRD", "CRD", "DCR"))
    y = net.transpose(net.reshape(x, 1, channels, factor, factor, height, width), 0, 1, 4, 2, 5, 3)
    return net.reshape(y, 1, channels, height * factor, width * factor)


# -- joints of levels ------------------------------------------------------------------------------------------------


def u_net(net: Drawing, levels: Sequence[str]) -> list[str]:
    """From the smallest map up, every level joined or added; one map, the largest."""
    net.blocks.append("u_net")
    up = net.pick(*UPS)
    net.blocks.append(up.__name__)
    added = net.chance(0.3)
    x = levels[-1]
    for skip in reversed(levels[:-1]):
        raised = _matched(net, up(net, x, *net.size(skip)), skip)
        if added:
            x = net.layer(net.op("Add", net.convolve(raised, net.channels(skip)), skip), net.channels(skip))
        else:
            x = net.layer(net.concat(*net.pick((raised, skip), (skip, raised))), net.channels(skip))
    return [x]


def fpn(net: Drawing, levels: Sequence[str]) -> list[str]:
    """All levels of one width, each with the enlarged next one added."""
    net.blocks.append("fpn")
    width = net.pick(8, 12)
    maps = [net.convolve(level, width) for level in levels]
    mode = net.pick("nearest", "nearest", "linear")
    for index in range(len(maps) - 2, -1, -1):
        raised = net.resize(maps[index + 1], *net.size(maps[index]), mode)
        maps[index] = net.op("Add", *net.pick((maps[index], raised), (raised, maps[index])))
    return [net.convolve(each, width, 3) if net.chance(0.7) else each for each in maps]


def pan(net: Drawing, levels: Sequence[str]) -> list[str]:
    """Up and down again with joins, as in YOLO."""
    net.blocks.append("pan")
    maps = list(levels)
    for index in range(len(maps) - 2, -1, -1):
        above = net.layer(maps[index + 1], 8, 1) if net.chance(0.5) else maps[index + 1]
        maps[index + 1] = above
        raised = net.resize(above, *net.size(maps[index]))
        maps[index] = net.layer(net.concat(raised, maps[index]), 12, net.pick(1, 3))
    for index in range(1, len(maps)):
        lowered = net.layer(maps[index - 1], 8, 3, 2)
        maps[index] = net.layer(net.concat(_matched(net, lowered, maps[index]), maps[index]), 12, net.pick(1, 3))
    return maps


def bifpn(net: Drawing, levels: Sequence[str]) -> list[str]:
    """Weighted sums of two levels, as in EfficientDet."""
    net.blocks.append("bifpn")
    maps = [net.convolve(level, 8) for level in levels]
    for index in range(len(maps) - 2, -1, -1):
        raised = net.resize(maps[index + 1], *net.size(maps[index]))
        parts = [net.op("Mul", part, net.scalar(net.rng.uniform(0.2, 0.8))) for part in (maps[index], raised)]
        maps[index] = net.layer(net.op("Add", *parts), 8)
    return maps


def levels_alone(net: Drawing, levels: Sequence[str]) -> list[str]:
    """The levels as they are."""
    return list(levels)


NECKS = (fpn, pan, pan, bifpn, levels_alone)


def _matched(net: Drawing, x: str, other: str) -> str:
    """``x`` with the rows and columns of ``other``: cut, where it has more, else padded."""
    for axis, size in ((2, net.size(other)[0]), (3, net.size(other)[1])):
        if net.dims(x)[axis] > size:
            x = net.cut(x, 0, size, axis)
    missing = [wanted - found for wanted, found in zip(net.size(other), net.size(x), strict=True)]
    return net.pad(x, 0, 0, missing[1], missing[0]) if any(missing) else x
