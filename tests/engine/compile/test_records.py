"""Records: what they hold, and how a section that does not is named."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from engine.compile.records import (
    AttributeKind,
    AttributeRecord,
    BlobRecord,
    BlockRecord,
    TensorRecord,
    decode_record,
    encode_record,
)
from engine.errors import ContainerError


def test_what_is_as_usual_is_left_out() -> None:
    blob = BlobRecord(offset=16, length=4, dtype="int8", shape=(4,))
    data = encode_record(blob)
    assert data == b'{"offset":16,"length":4,"dtype":"int8","shape":[4]}'
    assert decode_record(BlobRecord, data, "here") == blob


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (BlobRecord, {"offset": -1, "length": 0, "dtype": "int8", "shape": ()}),
        (BlobRecord, {"offset": 0, "length": (1 << 40) + 1, "dtype": "int8", "shape": ()}),
        (TensorRecord, {"name": "x", "dtype": "complex64", "shape": (1,)}),
        (TensorRecord, {"name": "x", "dtype": "int8", "shape": (1,) * 17}),
        (TensorRecord, {"name": "x" * 65_537, "dtype": "int8", "shape": ()}),
        (TensorRecord, {"name": "x", "dtype": "int8", "shape": (), "more": 1}),
        (BlockRecord, {"out_channels": 0, "in_channels": 1, "depthwise_channels": 0, "depthwise_taps": 1}),
        (BlockRecord, {"out_channels": 4097, "in_channels": 1, "depthwise_channels": 0, "depthwise_taps": 1}),
        (AttributeRecord, {"kind": "INT", "value": 1 << 63}),
        (AttributeRecord, {"kind": "INT", "value": -(1 << 63) - 1}),
    ],
)
def test_values_out_of_range_are_refused(kind: Any, content: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kind(**content)


def test_the_limits_themselves_are_allowed() -> None:
    assert BlobRecord(offset=0, length=1 << 40, dtype="bool", shape=(1,) * 16).length == 1 << 40
    assert AttributeRecord(kind=AttributeKind.INT, value=-(1 << 63)).value == -(1 << 63)
    assert BlockRecord(out_channels=4096, in_channels=1, depthwise_channels=0, depthwise_taps=1).out_channels == 4096


@pytest.mark.parametrize(
    ("data", "place"), [(b"{", "its start"), (b'{"name": "x", "dtype": "int9", "shape": []}', "dtype")]
)
def test_the_place_of_the_first_fault_is_named(data: bytes, place: str) -> None:
    with pytest.raises(ContainerError, match=rf"a.bin: META: invalid TensorRecord at {place}: "):
        decode_record(TensorRecord, data, "a.bin: META")
