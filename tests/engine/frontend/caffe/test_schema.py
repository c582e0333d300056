"""Caffe's messages: numbers and defaults of its published schema, on the wire and in text."""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from engine.frontend.caffe.schema import message_class


def test_numbers_on_the_wire_are_caffes() -> None:
    """``layer`` is field 100, ``name`` 1 and ``blobs`` 7 of it; a blob's packed data are 5."""
    content = bytes.fromhex("a2060d0a01633a082a040000803f0801")
    network = message_class("NetWeights").FromString(content)
    (layer,) = network.layer
    assert (layer.name, list(layer.blobs[0].data), layer.blobs[0].num) == ("c", [1.0], 1)


@pytest.mark.parametrize(
    ("message", "field", "expected"),
    [
        ("ConvolutionParameter", "group", 1),
        ("ConvolutionParameter", "bias_term", True),
        ("PoolingParameter", "stride", 1),
        ("PoolingParameter", "round_mode", 0),
        ("BatchNormParameter", "eps", pytest.approx(1e-5)),
        ("LRNParameter", "local_size", 5),
        ("LRNParameter", "beta", 0.75),
        ("FlattenParameter", "end_axis", -1),
        ("CropParameter", "axis", 2),
        ("ScaleParameter", "bias_term", False),
        ("UpsampleParameter", "scale", 2),
        ("EltwiseParameter", "operation", 1),
    ],
)
def test_defaults_are_caffes(message: str, field: str, expected: object) -> None:
    assert getattr(message_class(message)(), field) == expected


def test_labels_of_enums_are_read_in_text() -> None:
    text = (
        "layers { type: INNER_PRODUCT } layer { pooling_param { pool: AVE round_mode: FLOOR } } state { phase: TRAIN }"
    )
    network = text_format.Parse(text, message_class("NetParameter")())
    assert network.layers[0].type == 14
    assert (network.layer[0].pooling_param.pool, network.layer[0].pooling_param.round_mode) == (1, 1)
    assert network.state.phase == 0
    assert message_class("NetState")().phase == 1, "networks are read for testing"


def test_weights_skip_fields_of_forks() -> None:
    full = message_class("NetParameter")()
    full.layer.add(name="a").permute_param.order.append(1)
    full.layers.add(name="b").blobs.add(num=1).data.append(2.0)
    weights = message_class("NetWeights").FromString(full.SerializeToString())
    assert (weights.layer[0].name, weights.layers[0].name, weights.layers[0].blobs[0].data[0]) == ("a", "b", 2.0)
