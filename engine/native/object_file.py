"""Loads an object file of compiled kernels into the memory of this process.

The objects are LLVM's of its large code model: code and constants that refer to each other, and to functions of the C
library, by 64-bit addresses alone. Placing them takes no linker (LLVM's would take 55 MB). Formats: ELF-64 Object File
Format; System V ABI, AMD64, table 4.9.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADER = np.dtype(
    [
        ("magic", "S4"),
        ("format", "S12"),
        ("kind", "<u2"),
        ("machine", "<u2"),
        ("before", "S20"),
        ("sections", "<u8"),
        ("between", "S10"),
        ("size", "<u2"),
        ("count", "<u2"),
        ("names", "<u2"),
    ]
)
SECTION = np.dtype(
    [
        ("name", "<u4"),
        ("kind", "<u4"),
        ("flags", "<u8"),
        ("address", "<u8"),
        ("offset", "<u8"),
        ("size", "<u8"),
        ("link", "<u4"),
        ("info", "<u4"),
        ("alignment", "<u8"),
        ("entry", "<u8"),
    ]
)
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
RELOCATION = np.dtype([("offset", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
RELOCATABLE, X86_64 = 1, 62
PROGRAM, SYMBOLS, RELOCATIONS = 1, 2, 4
"""Kinds of sections."""
WRITE, ALLOCATE = 1, 2
"""Flags of sections."""
ABSOLUTE, RELATIVE = 1, 24
"""Kinds of relocations: 64-bit addresses, and 64-bit distances from the place that holds them."""


class ObjectFile:
    """The functions of an object file, placed in memory for as long as this lives.

    Args:
        path: of an ELF object for x86-64.
        outside: addresses of the functions that it may call, by name.

    Attributes:
        addresses: of its global functions, by name.

    Raises:
        ValueError: the file is no such object, or it needs more than code, constants and 64-bit addresses.
        OSError: the file cannot be read, or the system lets nobody run code that was not there at the start.
    """

    def __init__(self, path: Path, outside: Callable[[str], int]) -> None:
        self._data = path.read_bytes()
        if len(self._data) < HEADER.itemsize or not self._data.startswith(b"\x7fELF\x02\x01"):
            raise ValueError(f"{path} is no 64-bit ELF file")
        header = self._records(HEADER, 0, HEADER.itemsize)[0]
        if (header["kind"], header["machine"]) != (RELOCATABLE, X86_64):
            raise ValueError(f"{path} is no object file for x86-64")
        start = int(header["sections"])
        self._sections = self._records(SECTION, start, int(header["count"]) * SECTION.itemsize)
        places = self._place()
        self._memory = mmap.mmap(-1, self._size, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for index, place in places.items():
            section = self._sections[index]
            first, size = int(section["offset"]), int(section["size"])
            self._memory[place : place + size] = self._data[first : first + size]
        symbols = self._symbols(places, outside)
        self._relocate(places, [address for _, address in symbols])
        _make_executable(self._base, self._size)
        self.addresses: Mapping[str, int] = {name: address for name, address in symbols if name}

    def _records(self, kind: np.dtype[Any], start: int, size: int) -> NDArray[Any]:
        return np.frombuffer(self._data[start : start + size], kind)

    def _place(self) -> dict[int, int]:
        """Where each section with code or constants begins in memory, by number."""
        places, self._size = {}, 0
        for index, section in enumerate(self._sections):
            if section["kind"] != PROGRAM or not section["flags"] & ALLOCATE:
                continue
            if section["flags"] & WRITE:
                raise ValueError("the object has variables")
            alignment = max(1, int(section["alignment"]))
            places[index] = -(-self._size // alignment) * alignment
            self._size = places[index] + int(section["size"])
        self._size = max(1, self._size)
        return places

    def _symbols(self, places: Mapping[int, int], outside: Callable[[str], int]) -> list[tuple[str, int]]:
        """Names and addresses; the name is '' for what is not global, and the address 0 for what is not in memory."""
        (table,) = self._sections[self._sections["kind"] == SYMBOLS]
        names = self._sections[int(table["link"])]
        text = self._data[int(names["offset"]) : int(names["offset"] + names["size"])]
        found = []
        for symbol in self._records(SYMBOL, int(table["offset"]), int(table["size"])):
            name = text[int(symbol["name"]) : text.index(b"\0", int(symbol["name"]))].decode()
            inside = int(symbol["section"]) in places
            if inside:
                address = self._base + places[int(symbol["section"])] + int(symbol["value"])
            else:
                address = outside(name) if name and not symbol["section"] else 0
            found.append((name if inside and symbol["info"] >> 4 else "", address))
        return found

    def _relocate(self, places: Mapping[int, int], symbols: list[int]) -> None:
        """Write addresses where the sections want them."""
        for section in self._sections[self._sections["kind"] == RELOCATIONS]:
            if int(section["info"]) not in places:
                continue
            place = places[int(section["info"])]
            for entry in self._records(RELOCATION, int(section["offset"]), int(section["size"])):
                at, target = place + int(entry["offset"]), symbols[entry["symbol"]]
                if entry["kind"] not in (ABSOLUTE, RELATIVE) or not target:
                    raise ValueError(f"the object needs a relocation of kind {entry['kind']}, or what is not in memory")
                value = target + int(entry["addend"]) - (self._base + at if entry["kind"] == RELATIVE else 0)
                self._memory[at : at + 8] = (value % 2**64).to_bytes(8, "little")


def _make_executable(address: int, size: int) -> None:
    """Let the whole pages from ``address`` on be run, and no longer written."""
    library = ctypes.CDLL(None, use_errno=True)
    protect = library.mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(address, size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "memory cannot be made executable")


def function_of_c(name: str) -> int:
    """Address of a function of the C library.

    Raises:
        ValueError: it has none of that name.
    """
    try:
        address = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    except AttributeError as error:
        raise ValueError(f"the C library has no {name}") from error
    return address or 0
