"""Which axes a Reshape joins, divides, drops or appends, and what of that the original sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.optimize.transposes import axes_without_ones

Shape = tuple[int, ...]
MAP_RANK = 4


def finds_its_place(pairs: Sequence[tuple[Shape, Shape]]) -> bool:
    """Whether the original finds which axes Reshapes join or divide, by the shapes before and behind each.

    Axes of length 1 it finds at either end, at the last first, and at the same end for all operands. The axes that are
    one on the other side it seeks from the first on whose size is none there: it does not find them in ``(1, 8, 8, 4)``
    to ``(1, 8, 32)``, and in ``(1, 8, 4, 8)`` to ``(1, 32, 8)`` not in their place, which two operands need. Of several
    that are one these need that they lie side by side: not ``(1, 12, 8, 6)`` to ``(12, 48)`` (27 of 27 asked).
    506 of 509 operators asked on bayes-e (Concats apart), 74 of 74 of normalisations on bernoulli2.
    """
    found = [_place_of_change(*sorted(pair, key=len, reverse=True)) for pair in pairs]
    places = [place for place in found if place is not None]
    if len(places) < len(found):
        return False
    return len(found) == 1 or (len({place.side for place in places}) == 1 and all(place.is_true for place in places))


def joins_or_divides(before: Shape, after: Shape) -> bool:
    """Whether a Reshape leaves another number of axes longer than 1, as if it changed the number of dimensions.

    A mean of a kept axis passes ``(1, 8, 6, 5)`` to ``(1, 8, 1, 30)`` and ``(2, 4, 6, 5)``, not to ``(1, 8, 5, 6)`` or
    ``(8, 1, 6, 5)``: 22 of 22 asked on two marches, 6 of 6 of lines, pixels and channels before; SwinV2.
    """
    return sum(size > 1 for size in before) != sum(size > 1 for size in after)


def joins_or_divides_pixels(before: Shape, after: Shape) -> bool:
    """Whether a map becomes a line, one of whose sides is 1, or a line a map, and the original finds the pixels.

    80 of 80 convolutions and products asked on bayes-e and bernoulli2, of which 30 stay: as many channels as rows.
    """
    if len(before) != MAP_RANK or (1 in before[2:]) == (1 in after[2:]):
        return False
    pixels = before if 1 in after[2:] else after
    return _place_of_change(pixels, (*pixels[:2], pixels[2] * pixels[3])) is not None


def drops_or_appends_ones(before: Shape, after: Shape) -> bool:
    """Whether a Reshape drops axes of length 1 at an end, or appends some.

    Those that are put in front keep parts behind it (three drawn networks with area attention on two marches).
    """
    place = _place_of_change(*sorted((before, after), key=len, reverse=True)) if len(before) != len(after) else None
    return place is not None and place.side in ((_LAST, _FIRST) if len(before) > len(after) else (_FIRST,))


def joins_alike(before: Shape, after: Shape, axis: int) -> bool:
    """Whether joining along ``axis`` of ``before`` joins along that of ``after``, and the original sees it.

    The shapes are the same at every place that both have but ``axis``: ``(1, 8, 4, 6)`` to ``(1, 48, 4)`` along the
    rows, not to ``(1, 32, 6)``; ``(1, 16, 2, 1)`` to ``(1, 16, 2)``, not ``(1, 1, 4, 16)`` to ``(1, 4, 16)``.
    """
    if len(before) == len(after) or axis >= len(before):
        return False
    return all(
        first == second for place, (first, second) in enumerate(zip(before, after, strict=False)) if place != axis
    )


_FIRST, _LAST = "first", "last"
"""Which axes stay where axes of length 1 are added or dropped."""


@dataclass(frozen=True)
class _Place:
    """Where the original sees what a Reshape changes.

    Attributes:
        side: which axes stay where others of length 1 are dropped; empty where axes are joined.
        is_true: whether that is so.
    """

    side: str
    is_true: bool


def _place_of_change(longer: Shape, shorter: Shape) -> _Place | None:
    """Where the original sees what it takes to make ``shorter`` of ``longer``; ``None`` where it does not."""
    kept = len(shorter)
    if longer[-kept:] == shorter:
        return _Place(_LAST, is_true=True)
    if longer[:kept] == shorter:
        return _Place(_FIRST, is_true=True)
    if axes_without_ones(longer, shorter) is not None or [n for n in longer if n > 1] == [n for n in shorter if n > 1]:
        return None
    length = len(longer) - kept + 1
    joined = [at for at in range(kept) if (*longer[:at], shorter[at], *longer[at + length :]) == shorter]
    if not joined and shorter[0] == 1 < longer[0]:
        return None  # the states of an LSTM of two directions, batch first, in front of their mean (1 drawn network)
    if not joined and longer[1] == 1 == shorter[-1] < longer[-1]:
        return None  # (1, 1, 5, 6) to (1, 30, 1): 6 of 6 sums and factors of one number asked
    if not joined:
        return _Place("", is_true=_are_side_by_side(longer, shorter))
    begin = next((axis for axis, size in enumerate(longer) if size > 1 and size not in shorter), joined[0])
    if shorter[joined[0]] not in np.cumprod(longer[begin:]):
        return None
    return _Place("", is_true=begin in joined)


def _are_side_by_side(longer: Shape, shorter: Shape) -> bool:
    """Whether ``longer`` has several axes for each of ``shorter``, but for those that both have at their ends.

    None of them has length 1: the windows of TinyViT, joined to a batch of that length, stay.
    """
    pairs = zip(longer, shorter, strict=False)
    begin = next((axis for axis, (a, b) in enumerate(pairs) if a != b), len(shorter))
    parts, whole = longer[begin:], shorter[begin:]
    while whole and parts[-1] == whole[-1]:
        parts, whole = parts[:-1], whole[:-1]
    groups = None if 1 in (*parts, *whole) else Correspondence.between(parts, whole)
    return groups is not None and all(len(outer) == 1 < len(inner) for inner, outer in groups.groups)


@dataclass(frozen=True)
class Correspondence:
    """Which axes of a tensor become which axes of its reshaped form.

    Attributes:
        before, after: the two shapes.
        groups: runs of axes of either that hold the same elements, in order.
    """

    before: Shape
    after: Shape
    groups: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

    @classmethod
    def between(cls, before: Shape, after: Shape) -> Correspondence | None:
        """The finest groups; ``None`` where the numbers of elements differ or are zero."""
        if int(np.prod(before)) != int(np.prod(after)) or not int(np.prod(before)):
            return None
        groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        left = right = 0
        while left < len(before) or right < len(after):
            single = left < len(before) and before[left] == 1, right < len(after) and after[right] == 1
            ends = (
                (left + int(single[0]), right + int(single[1])) if any(single) else cls._run(before, after, left, right)
            )
            groups.append((tuple(range(left, ends[0])), tuple(range(right, ends[1]))))
            left, right = ends
        return cls(before, after, tuple(groups))

    @staticmethod
    def _run(before: Shape, after: Shape, left: int, right: int) -> tuple[int, int]:
        """Where the shortest runs of axes from ``left`` and ``right`` on end that hold as many elements."""
        first, last = left + 1, right + 1
        while (inner := int(np.prod(before[left:first]))) != (outer := int(np.prod(after[right:last]))):
            first, last = first + int(inner < outer), last + int(outer < inner)
        return first, last

    def holds(self, before: Shape, after: Shape) -> bool:
        """Whether a tensor that broadcasts to the whole one is reshaped in the same way."""
        for sources, targets in self.groups:
            inner, outer = [before[axis] for axis in sources], [after[axis] for axis in targets]
            full = inner == [self.before[axis] for axis in sources] and outer == [self.after[axis] for axis in targets]
            if not full and set(inner) | set(outer) != {1}:
                return False
        return True

    def source_of(self, constant_shape: Shape) -> Shape | None:
        """The shape before the reshape of a constant operand, given aligned; ``None`` where it cannot have one.

        It has the whole shape and the reshape adds no axis of length 1 (28 of 28 asked), or broadcasts as it is, or
        batch and channels stay apart, or its axes start where they did: what is added to the
        rows that a ``Gemm`` made joins its bias (the published log of YOLOv13n, twice). The original moves neither the
        bias of one row to the channels (``min_fc``) nor the queries of ``detr`` from the batch to the rows (2 networks,
        provisional).
        """
        if constant_shape == self.after and all(sources for sources, targets in self.groups if targets):
            return self.before
        shape = [1] * len(self.before)
        stays = starts = True
        for sources, targets in self.groups:
            outer = [constant_shape[axis] for axis in targets]
            if set(outer) <= {1}:
                continue
            if outer != [self.after[axis] for axis in targets]:
                return None
            for axis in sources:
                shape[axis] = self.before[axis]
            stays &= [a - len(self.before) for a in sources] == [b - len(self.after) for b in targets]
            starts &= sources[:1] == targets[:1]
        return tuple(shape) if stays or starts or self.before[:2] == self.after[:2] else None

    def axes(self, after: Sequence[int]) -> list[int] | None:
        """The axes before the reshape that are ``after`` behind it; ``None`` where it does not keep them whole."""
        found = []
        for axis in after:
            group = next((sources for sources, targets in self.groups if targets == (axis,)), ())
            if len(group) != 1:
                return None
            found.append(group[0])
        return sorted(found)
