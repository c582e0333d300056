"""Nodes that are removed from the ends of a compiled model."""

from __future__ import annotations

import numpy as np
import pytest

from engine.compile.records import RemovedNode
from engine.compile.removal import INPUT_TYPES, OUTPUT_TYPES, Named, OfTypes, dequantized, removable, remove_nodes
from tests.engine.compile.compiled import residual


def types(names: tuple[str, ...]) -> list[str]:
    by_name = {str(node.name): node.op_type for node in residual().model.graph}
    return [by_name[name] for name in names]


def test_only_borders_may_be_removed() -> None:
    assert types(removable(residual())) == ["HzQuantize", "HzDequantize"]
    assert INPUT_TYPES == ("Quantize", "Transpose")
    assert OUTPUT_TYPES == ("Transpose", "Dequantize", "Cast", "Reshape", "Softmax")


def test_nodes_are_removed_one_after_the_other() -> None:
    """The transpose becomes an end when the quantisation before it is gone."""
    first, last = removable(residual())
    found = remove_nodes(residual(), [Named(first), Named("Conv_0"), Named("none"), Named(last)])
    assert [record.name for record in found.removed] == [first, last]
    assert found.skipped == ("Conv_0", "none")
    assert found.model.removed == found.removed
    kept = [node.op_type for node in found.model.model.graph]
    assert "HzQuantize" not in kept
    assert "HzDequantize" not in kept
    assert [value.dtype and value.dtype.name for value in found.model.model.graph.inputs] == ["INT8"]
    assert types((first, last)) == ["HzQuantize", "HzDequantize"], "the model itself is left as it is"


def test_types_are_removed_from_the_ends_inwards() -> None:
    found = remove_nodes(residual(), [OfTypes(frozenset({"Quantize", "Transpose", "Softmax"}))])
    assert sorted({record.type for record in found.removed}) == ["Quantize", "Transpose"]
    assert found.absent == ("Softmax",)
    (record,) = (record for record in found.removed if record.type == "Quantize")
    assert (record.input_shape, record.input_name, len(record.scales)) == ((1, 8, 16, 16), "x", 1)


@pytest.mark.parametrize(("axis", "expected"), [(1, [[0.5, 1.0], [6.0, 8.0]]), (2, [[0.5, 4.0], [1.5, 8.0]])])
def test_results_are_dequantised_afterwards(axis: int, expected: list[list[float]]) -> None:
    node = RemovedNode(
        name="d",
        type="Dequantize",
        input_shape=(1, 2, 2),
        output_shape=(1, 2, 2),
        input_name="y",
        scales=(0.5, 2.0),
        axis=axis,
    )
    compiled = remove_nodes(residual(), []).model
    compiled = type(compiled)(**{**vars(compiled), "removed": (node,)})
    raw = np.array([[[1, 2], [3, 4]]], np.int32)
    found = dequantized(compiled, {"y": raw, "z": raw})
    assert found["y"].dtype == np.float32
    assert found["y"][0].tolist() == expected
    assert found["z"] is raw
