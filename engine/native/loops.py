"""Compiled loops over arrays: built with the wheel, else compiled by numba when they are first called.

numba takes a second of every process to be imported and to read what it kept, and many seconds to compile; a loop that
was built with the wheel needs none of it.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.native import prebuilt

_WORD = 8


@dataclass(frozen=True)
class Argument:
    """What a loop takes.

    Attributes:
        dtype: numpy's name of its type.
        dimensions: of a C-contiguous array; 0 for one number.
    """

    dtype: str
    dimensions: int = 0

    @cached_property
    def kind(self) -> np.dtype[Any]:
        """The type as numpy has it: its name would be slow to compare."""
        return np.dtype(self.dtype)

    @property
    def layout(self) -> str:
        """Of its 64-bit words, as :mod:`struct` writes it: a number; of an array address, size, shape and strides."""
        if self.dimensions:
            return f"{2 + 2 * self.dimensions}q"
        if self.kind.itemsize < _WORD:
            return f"{self.kind.char}{_WORD - self.kind.itemsize}x"
        return "q" if self.kind.kind == "i" else self.kind.char  # numpy's own letter has half a word in struct

    def refuse_other(self, array: NDArray[Any]) -> None:
        """Raise for what compiled code would misread.

        Raises:
            TypeError: the array is of another type or layout.
        """
        if array.dtype != self.kind or array.ndim != self.dimensions or not array.flags.c_contiguous:
            raise TypeError(
                f"a loop takes C-contiguous {self.dtype} of {self.dimensions} dimensions, got {array.dtype} of shape "
                f"{array.shape} and strides {array.strides}"
            )


@dataclass(frozen=True)
class Loop:
    """A function that changes arrays among its arguments and returns nothing; it runs without the GIL.

    Attributes:
        module: that defines the function for numba (:func:`engine.jit.entry`).
        name: of the function, also in objects.
        arguments: what it takes.
    """

    module: str
    name: str
    arguments: tuple[Argument, ...]

    def __call__(self, *values: Any) -> None:
        """Run it.

        Raises:
            TypeError: an argument too many or too few, or an array of another type or layout.
        """
        if len(values) != len(self.arguments):
            raise TypeError(f"{self.name} takes {len(self.arguments)} arguments, got {len(values)}")
        if self._built is None:
            self.function(*values)
        else:
            self._built(self.words(values))

    def words(self, values: Sequence[Any]) -> bytes:
        """The arguments as machine code takes them, 64 bits each: see :attr:`Argument.layout`.

        Raises:
            TypeError: an array of another type or layout.
        """
        words: list[Any] = []
        for argument, value in zip(self.arguments, values, strict=True):
            if argument.dimensions:
                argument.refuse_other(value)
                words += (value.__array_interface__["data"][0], value.size, *value.shape, *value.strides)
            else:
                words.append(value)
        return self._layout.pack(*words)

    @property
    def function(self) -> Callable[..., None]:
        """The function that numba compiles."""
        found: Callable[..., None] = getattr(import_module(self.module), self.name)
        return found

    @cached_property
    def _layout(self) -> struct.Struct:
        return struct.Struct("<" + "".join(argument.layout for argument in self.arguments))

    @cached_property
    def _built(self) -> Callable[..., None] | None:
        built = prebuilt.addresses()
        if built is None:
            return None
        function: Callable[..., None] = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(built[self.name])
        return function
