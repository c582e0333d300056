"""Models without their weights: what is kept, what becomes of the rest."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from engine.conformance.stripped import LARGEST_KEPT, without_weights
from engine.ir import attribute, to_bytes
from tests.engine.calibrate.models import graph

ARRAYS = {
    "few": np.arange(8, dtype=np.float32),
    "many": np.arange(9, dtype=np.float32),
    "weight": np.full((4, 100), 7, np.float32),
    "indices": np.arange(9, dtype=np.int64),
}


def model() -> ir.Model:
    made = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(ARRAYS["many"] + 1))
    node = helper.make_node("Neg", ["x"], ["y"], doc_string="/home/me/net.py:3")
    built = graph([made, node], {"x": (1,)}, ["y"], ARRAYS)
    built.doc_string = built.graph.doc_string = "secret"
    return built


def contents(made: ir.Model) -> dict[str, np.ndarray]:
    return {name: value.const_value.numpy() for name, value in made.graph.initializers.items()}


def test_small_constants_and_integers_of_a_float_model_are_kept() -> None:
    found = contents(without_weights(model(), random=True))
    assert LARGEST_KEPT == 8
    for name, kept in {"few": True, "many": False, "weight": False, "indices": True}.items():
        assert np.array_equal(found[name], ARRAYS[name]) == kept
        assert (found[name].shape, found[name].dtype) == (ARRAYS[name].shape, ARRAYS[name].dtype)


def test_all_larger_constants_of_other_models_become_zeros() -> None:
    found = contents(without_weights(model(), random=False))
    assert [bool(found[name].any()) for name in ("few", "many", "weight", "indices")] == [True, False, False, False]


def test_random_vectors_are_positive_and_weights_keep_activations_in_range() -> None:
    found = contents(without_weights(model(), random=True))
    assert found["many"].min() >= 0.5
    assert found["many"].max() <= 1.5
    assert found["weight"].std() == pytest.approx(0.1, rel=0.2)  # of 100 inputs


def test_numbers_depend_on_name_and_shape_alone() -> None:
    first, second = (contents(without_weights(model(), random=True)) for _ in range(2))
    np.testing.assert_array_equal(first["weight"], second["weight"])
    other = graph([], {"x": (1,)}, [], {"another": ARRAYS["weight"]})
    assert not np.array_equal(contents(without_weights(other, random=True))["another"], first["weight"])


def test_constants_of_nodes_and_texts_go_too_and_the_model_itself_stays() -> None:
    given = model()
    before = to_bytes(given)
    made = without_weights(given, random=False)
    assert not attribute(made.graph[0], "value").numpy().any()
    assert (made.doc_string, made.graph.doc_string, made.graph[1].doc_string) == (None, None, None)
    assert to_bytes(given) == before
    assert b"secret" not in to_bytes(made)
