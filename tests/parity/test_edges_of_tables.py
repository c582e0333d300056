"""Tables of functions with an edge are the original's: its answers for small networks, tests/golden/edges.

A network is Conv, Relu where the question says so, and the function; the data are uniform between ``low`` and ``high``.
``fresh_*`` were asked after the rules had been written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from engine.ir import decline
from engine.ops.core.element_functions import element_function, wide_table_function
from engine.ops.lut import OUTER_SLOPES, UNDEFINED_ENTRIES, curve_of, lookup_table
from engine.ops.lut2_layer import Lut2Layer, Symmetry, interpolation_tables, two_slopes

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "edges"
OPERATORS = {"Rsqrt": "HzRsqrt", "RsqrtEps": "HzRsqrt", "Log1p": "Log", "Pow05": "Pow"}
EPSILON = {"RsqrtEps": 1e-3}
STEPS = {"Floor", "Ceil", "Round", "Sign"}
"""Functions of steps: where the original's segments lie is not known."""
OVERFLOWS = {"exp_low"}
"""The original's entries come from an infinity here: -32768 where ours are the largest integer."""
LARGEST_DIFFERENCE = 1
"""Units of an int16 result: bounds, entries and lines were computed in another precision."""

CASES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
ANSWERS = [
    pytest.param(name, case["question"], answer, id=f"{name}-{answer['width']}-{'-'.join(answer['marches'])}")
    for name, case in CASES.items()
    for answer in case["answers"]
    if "operator" in answer
]


def function_node(question: dict[str, Any]) -> ir.Node:
    """The element-wise node that a question asks about, as optimised."""
    name = question["f"]
    inputs = [ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT))]
    if name == "Pow":
        inputs.append(ir.Value(name="e", const_value=ir.tensor(np.float32(question["e"]))))
    op_type = OPERATORS.get(name, name)
    epsilon = [ir.AttrFloat32("epsilon", EPSILON.get(name, 0.0))] if op_type == "HzRsqrt" else []
    return ir.Node("", op_type, inputs, epsilon)


def wide(question: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Our attributes of the int16 table."""
    node, xs, ys = function_node(question), answer["input_scale"], answer["output_scale"]
    if node.op_type in OUTER_SLOPES:
        return {"symmetry_mode": "NONE", **two_slopes(*OUTER_SLOPES[node.op_type], xs, ys)}
    return interpolation_tables(wide_table_function(node), xs, ys, curve_of(node))


@pytest.mark.parametrize(("name", "question", "answer"), ANSWERS)
def test_tables_are_the_originals(name: str, question: dict[str, Any], answer: dict[str, Any]) -> None:
    if answer["operator"] == "HzLut":
        scales = np.float32([answer["input_scale"]]), np.float32([answer["output_scale"]])
        np.testing.assert_array_equal(lookup_table(function_node(question), *scales), answer["table"])
        return
    found = wide(question, answer)
    if question["f"] in STEPS or name in OVERFLOWS:
        assert found["right_shift"] == [abs(shift) for shift in found["right_shift"]]
        return
    assert found["symmetry_mode"] == answer["symmetry_mode"]
    np.testing.assert_allclose(found["bound"], answer["bound"], atol=1)
    np.testing.assert_allclose(found["table_param"], answer["table_param"], atol=1)
    curve, x = curve_of(function_node(question)), np.arange(-32768, 32768) * answer["input_scale"]
    x = x if curve.symmetry is Symmetry.NONE else np.abs(x)
    defined = (x >= curve.first) & (x <= curve.last)
    ours, theirs = results(found)[defined], results(answer)[defined]
    np.testing.assert_allclose(ours, theirs, atol=LARGEST_DIFFERENCE)


def results(attributes: dict[str, Any]) -> NDArray[np.int16]:
    """What a table gives for every int16."""
    given = {
        name: np.asarray(value) if isinstance(value, list) else value
        for name, value in attributes.items()
        if name in Lut2Layer.attributes
    }
    (found,) = Lut2Layer().reference([np.arange(-32768, 32768)], {"output_bit": 16, **given})
    return found


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name]["question"]["f"] not in STEPS])
def test_no_entry_comes_from_nan_or_infinity(name: str) -> None:
    """Between the two ends of a table the entries are the function's own, so a step is never a jump to -32768."""
    for answer in CASES[name]["answers"]:
        if answer.get("operator") != "HzLut2Layer":
            continue
        question = CASES[name]["question"]
        found, function = wide(question, answer), element_function(function_node(question))
        if not any(found["table_param"]):
            continue
        curve = curve_of(function_node(question))
        ends = np.array([-32768, 32767]) * answer["input_scale"]
        x = np.linspace(max(ends[0], curve.first), min(ends[1], curve.last), 10_001)
        with np.errstate(all="ignore"):
            y = np.clip(function(x) / answer["output_scale"], -32768, 32767)
        assert np.isfinite(y).all()
        assert min(found["table_param"]) >= y.min() - 1
        assert max(found["table_param"]) <= y.max() + 1


@pytest.mark.parametrize("name", ["Sqrt", "Log", "Acos", "HzRsqrt", "Atanh"])
def test_clean_int8_tables_take_the_nearest_defined_entry(name: str) -> None:
    node = ir.Node("", name, [ir.Value(name="x")], [ir.AttrFloat32("epsilon", 0.0)] if name == "HzRsqrt" else [])
    scale = np.float32([2 / 127])
    with np.errstate(all="ignore"):
        undefined = np.isnan(element_function(node)(np.arange(-128, 128) * np.float64(scale[0])))
    original = lookup_table(node, scale, scale)
    assert (original[undefined] == -128).all()
    decline(node, UNDEFINED_ENTRIES)
    clean = lookup_table(node, scale, scale)
    np.testing.assert_array_equal(clean[~undefined], original[~undefined])
    defined = np.flatnonzero(~undefined)
    nearest = [original[defined[np.abs(defined - index).argmin()]] for index in np.flatnonzero(undefined)]
    np.testing.assert_array_equal(clean[undefined], nearest)
