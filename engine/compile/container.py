"""The ``.bin`` container: a table of typed, digested sections (``docs/bin_format.md``).

The layout is little-endian throughout::

    header    magic, version, section count, file length, SHA-256 of the table
    table     one entry per section: kind, index, offset, length, SHA-256 of the data
    sections  in the order of the table, each starting at a multiple of 64 bytes, zero bytes between them

Every byte of a file is covered: by the checks of the header, by a digest, or by the rule that padding is zero. A reader
needs the header and the table only, then reads the sections that it wants. A file may begin with a line that says what
it is (:data:`engine.ir.NOTICE`); offsets then count from the byte behind it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import BinaryIO

from engine.errors import ContainerError
from engine.ir import notice_length

MAGIC = b"PTQLABIN"
VERSION = 1
ALIGNMENT = 64
"""Sections start at multiples of this many bytes."""

MAX_SECTIONS = 65_536
MAX_FILE_BYTES = 8 << 30

_HEADER = struct.Struct("<8sHHIQ32s")
_ENTRY = struct.Struct("<4sIQQ32s")


class SectionKind(Enum):
    """What a section holds; readers skip kinds that they do not know."""

    METADATA = b"META"
    GRAPH = b"GRPH"
    DATA = b"DATA"
    SCHEDULE = b"SCHD"
    CPU_MODEL = b"CPUM"
    MODEL = b"MODL"


@dataclass(frozen=True)
class Section:
    """One section to write: ``index`` counts the sections of the same kind from 0."""

    kind: SectionKind
    index: int
    data: bytes


@dataclass(frozen=True)
class Entry:
    """One row of the table; ``offset`` and ``length`` in bytes, from the start of the file."""

    kind: bytes
    index: int
    offset: int
    length: int
    digest: bytes


def encode(sections: Sequence[Section]) -> bytes:
    """The bytes of a container with ``sections`` in the given order; the same sections always give the same bytes."""
    offset = _aligned(_HEADER.size + len(sections) * _ENTRY.size)
    entries, body = [], bytearray()
    start = offset
    for section in sections:
        body += bytes(offset - start - len(body))
        body += section.data
        digest = hashlib.sha256(section.data).digest()
        entries.append(_ENTRY.pack(section.kind.value, section.index, offset, len(section.data), digest))
        offset = _aligned(offset + len(section.data))
    body += bytes(offset - start - len(body))
    table = b"".join(entries)
    header = _HEADER.pack(MAGIC, VERSION, 0, len(sections), offset, hashlib.sha256(table).digest())
    head = header + table
    return bytes(head + bytes(start - len(head)) + body)


class ContainerReader:
    """Reads a container section by section; only the header and the table are held in memory.

    Args:
        stream: a seekable binary stream at any position.
        name: how messages call the file.

    Raises:
        ContainerError: header or table is damaged, truncated, of another version, or points outside the file.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._start = notice_length(stream)
        self._length = stream.seek(0, os.SEEK_END) - self._start
        self.entries = self._read_table()

    def _read_table(self) -> tuple[Entry, ...]:
        head = self._bytes_at(0, _HEADER.size) if self._length >= _HEADER.size else b""
        if not head.startswith(MAGIC):
            raise ContainerError(
                f"{self._name}: not a ptqlab .bin file: it does not start with {MAGIC.decode()}; give the .bin that "
                "ptqlab's hb_mapper makertbin wrote. Files for the board are read by the original toolchain's commands"
            )
        _, version, reserved, count, length, digest = _HEADER.unpack(head)
        if version != VERSION or reserved:
            raise ContainerError(
                f"{self._name}: container version {version}.{reserved}; this release reads {VERSION}.0"
            )
        if length != self._length or length > MAX_FILE_BYTES:
            raise ContainerError(f"{self._name}: {self._length} bytes long, its header says {length}; it is truncated")
        if count > MAX_SECTIONS or _HEADER.size + count * _ENTRY.size > length:
            raise ContainerError(f"{self._name}: a table of {count} sections does not fit")
        table = self._bytes_at(_HEADER.size, count * _ENTRY.size)
        if not _same(hashlib.sha256(table).digest(), digest):
            raise ContainerError(f"{self._name}: the section table is damaged: its SHA-256 differs")
        entries = tuple(Entry(*_ENTRY.unpack_from(table, i * _ENTRY.size)) for i in range(count))
        self._check_layout(entries)
        return entries

    def _check_layout(self, entries: Sequence[Entry]) -> None:
        """Sections follow each other as ``encode`` lays them out: no overlap, no hole, nothing outside the file."""
        end = _HEADER.size + len(entries) * _ENTRY.size
        if len({(entry.kind, entry.index) for entry in entries}) != len(entries):
            raise ContainerError(f"{self._name}: two sections have the same kind and index")
        for entry in entries:
            if entry.offset != _aligned(end) or entry.length > self._length - entry.offset:
                raise ContainerError(f"{self._name}: section {_label(entry)} lies outside its place in the file")
            self._check_padding(end, entry.offset)
            end = entry.offset + entry.length
        if _aligned(end) != self._length:
            raise ContainerError(f"{self._name}: there are bytes after the last section")
        self._check_padding(end, self._length)

    def _check_padding(self, start: int, end: int) -> None:
        if any(self._bytes_at(start, end - start)):
            raise ContainerError(f"{self._name}: the padding at byte {start} is not zero")

    def count(self, kind: SectionKind) -> int:
        """Number of sections of ``kind``."""
        return sum(entry.kind == kind.value for entry in self.entries)

    def read(self, kind: SectionKind, index: int = 0) -> bytes:
        """The data of one section.

        Raises:
            ContainerError: there is no such section or its digest differs.
        """
        for entry in self.entries:
            if entry.kind == kind.value and entry.index == index:
                data = self._bytes_at(entry.offset, entry.length)
                if not _same(hashlib.sha256(data).digest(), entry.digest):
                    raise ContainerError(f"{self._name}: section {_label(entry)} is damaged: its SHA-256 differs")
                return data
        raise ContainerError(f"{self._name}: section {kind.value.decode()}[{index}] is missing")

    def _bytes_at(self, offset: int, length: int) -> bytes:
        self._stream.seek(self._start + offset)
        data = self._stream.read(length)
        if len(data) != length:
            raise ContainerError(f"{self._name}: ends within the {length} bytes at {offset}")
        return data


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _same(left: bytes, right: bytes) -> bool:
    return hmac.compare_digest(left, right)


def _label(entry: Entry) -> str:
    return f"{entry.kind.decode('ascii', 'replace')}[{entry.index}]"
