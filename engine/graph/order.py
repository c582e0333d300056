"""Where elements of a tensor are after Reshapes and Transpositions, by axes rather than element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Axis = tuple[int, int]
"""A size of at least 2, and the distance of neighbours along it."""


@dataclass(frozen=True)
class Order:
    """Where the elements of a tensor were before they were moved, in the order in which they lie now.

    Attributes:
        axes: outermost first; where sizes of reshapes do not divide each other, the position of every element.
    """

    axes: tuple[Axis, ...] | NDArray[np.int64]

    @classmethod
    def start(cls, count: int) -> Order:
        """The order of ``count`` elements that were not moved."""
        return cls(((count, 1),) if count > 1 else ())

    @property
    def in_place(self) -> bool:
        """Whether all elements are where they were at the start."""
        if isinstance(self.axes, tuple):
            return not self.axes or (len(self.axes) == 1 and self.axes[0][1] == 1)
        return bool((np.diff(self.axes) == 1).all())

    def transposed(self, shape: Sequence[int], perm: Sequence[int]) -> Order:
        """After a transposition of a tensor of ``shape``."""
        if 0 in shape:
            return self
        if isinstance(self.axes, tuple):
            parts = self.by_dimension(shape)
            if parts is not None:
                return Order(joined([axis for dimension in perm for axis in parts[dimension]]))
        return Order(self.elements().reshape(shape).transpose(perm).ravel())

    def by_dimension(self, shape: Sequence[int]) -> list[list[Axis]] | None:
        """The axes that make up every dimension of ``shape``, outermost first, cut where that is needed.

        ``None`` where sizes do not divide each other.
        """
        if not isinstance(self.axes, tuple):
            return None
        rest = list(self.axes)
        parts: list[list[Axis]] = []
        for dimension in reversed(shape):
            part: list[Axis] = []
            while dimension > 1:
                size, step = rest.pop()
                taken = math.gcd(size, dimension)
                if taken not in (size, dimension):
                    return None
                if taken < size:
                    rest.append((size // taken, step * taken))
                part.insert(0, (taken, step))
                dimension //= taken
            parts.insert(0, part)
        return parts

    def elements(self) -> NDArray[np.int64]:
        """The position of every element."""
        if not isinstance(self.axes, tuple):
            return self.axes
        found = np.zeros(1, np.int64)
        for size, step in self.axes:
            found = np.add.outer(found, np.arange(size) * step).ravel()
        return found


def joined(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """Neighbours that go on evenly become one axis."""
    found: list[Axis] = []
    for size, step in axes:
        if found and found[-1][1] == size * step:
            found[-1] = (found[-1][0] * size, step)
        else:
            found.append((size, step))
    return tuple(found)
