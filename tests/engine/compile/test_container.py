"""The container: what goes in comes out, and no damage goes unnoticed."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.compile.container import ALIGNMENT, MAGIC, ContainerReader, Section, SectionKind, encode
from engine.errors import ContainerError

SECTIONS = st.lists(st.tuples(st.sampled_from(SectionKind), st.integers(0, 9)), max_size=8, unique=True).flatmap(
    lambda keys: st.tuples(*(st.builds(Section, st.just(k), st.just(i), st.binary(max_size=200)) for k, i in keys))
)
SAMPLE = (Section(SectionKind.METADATA, 0, b"{}"), Section(SectionKind.DATA, 0, bytes(range(100))))


def reader(data: bytes) -> ContainerReader:
    return ContainerReader(BytesIO(data), "sample.bin")


@given(SECTIONS)
def test_sections_come_back(sections: tuple[Section, ...]) -> None:
    data = encode(sections)
    opened = reader(data)
    assert [opened.read(section.kind, section.index) for section in sections] == [s.data for s in sections]
    assert all(entry.offset % ALIGNMENT == 0 for entry in opened.entries)
    assert encode(sections) == data


@given(st.data())
def test_every_changed_byte_is_noticed(data: st.DataObject) -> None:
    blob = bytearray(encode(SAMPLE))
    position = data.draw(st.integers(0, len(blob) - 1))
    blob[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ContainerError, match=r"sample\.bin"):
        read_all(bytes(blob))


@given(st.integers(0, len(encode(SAMPLE)) - 1))
def test_every_truncation_is_noticed(length: int) -> None:
    with pytest.raises(ContainerError):
        read_all(encode(SAMPLE)[:length])


@given(st.binary(max_size=300))
def test_garbage_is_refused(garbage: bytes) -> None:
    for data in (garbage, MAGIC + garbage):
        with pytest.raises(ContainerError):
            read_all(data)


def read_all(data: bytes) -> None:
    opened = reader(data)
    for kind in SectionKind:
        for index in range(opened.count(kind)):
            opened.read(kind, index)
    for section in SAMPLE:
        opened.read(section.kind, section.index)


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(ContainerError, match="header says"):
        reader(encode(SAMPLE) + bytes(ALIGNMENT))


def test_missing_section_is_named() -> None:
    with pytest.raises(ContainerError, match=r"GRPH\[0\] is missing"):
        reader(encode(SAMPLE)).read(SectionKind.GRAPH)


def test_other_versions_are_refused() -> None:
    data = bytearray(encode(SAMPLE))
    data[8] = 2
    with pytest.raises(ContainerError, match="container version 2"):
        reader(bytes(data))
