"""What the original refuses about a model that ptqlab converts."""

from __future__ import annotations

import logging
from typing import Any

import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from engine.convert.original import HB_COMPILE, HB_MAPPER, beyond_documents, original_tool, refused_by, tell_refusals
from engine.errors import UnsupportedError


def network(opset: int = 11, ir_version: int = 7, outputs: int = 1, samples: int = 1) -> ir.Model:
    """``outputs`` Relus of one input."""
    shape = (samples, 3, 4, 4)
    nodes = [helper.make_node("Relu", ["x"], [f"y{k}"], name=f"relu{k}") for k in range(outputs)]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, shape) for k in range(outputs)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    onnx.checker.check_model(model)
    return ir.serde.deserialize_model(model)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"opset": 12}, "opset version of the model is 12; 9 to 11 are supported"),
        ({"opset": 8}, "opset version of the model is 8; 9 to 11 are supported"),
        ({"ir_version": 10}, "ir version of the model is 10; 5 to 9 are supported"),
    ],
)
def test_each_limit_of_hb_mapper_has_its_reason(changes: dict[str, int], reason: str) -> None:
    assert refused_by(HB_MAPPER, network(**changes)) == (reason,)


def test_what_is_at_the_limits_is_taken() -> None:
    for changes in ({"opset": 9}, {"opset": 11}, {"ir_version": 9}, {"outputs": 32}):
        assert refused_by(HB_MAPPER, network(**changes)) == ()


def joined_norm(axis: int = 1, shared: str = "", operand: str = "Conv", **stated: float) -> ir.Model:
    """Two convolutions, joined and normalised; ``shared``: a tensor that is an output as well."""
    text = """
        <ir_version: 7, opset_import: ["": 11]>
        net (float[1,4,6,6] x) => (float[1,8,6,6] y SHARED)
        <float[4,4,1,1] w = {W}, float[8] s = {S}> {
            a = Conv (x, w)
            c = Conv (x, w)
            b = OPERAND
            j = Concat <axis: int = AXIS> (a, b)
            y = BatchNormalization STATED (j, s, s, s, s)
        }"""
    given = ", ".join(f"{name}: float = {value}" for name, value in stated.items())
    for mark, value in {
        "SHARED": f", float[1,N,6,6] {shared}" if shared else "",
        "OPERAND": "Conv (c, w)" if operand == "Conv" else f"{operand} (c)",
        "AXIS": str(axis),
        "STATED": f"<{given}>" if given else "",
        "{W}": "{" + ", ".join(["0.5"] * 16) + "}",
        "{S}": "{" + ", ".join(["1.0"] * 8) + "}",
    }.items():
        text = text.replace(mark, value)
    return ir.serde.deserialize_model(onnx.parser.parse_model(text))


def test_a_norm_of_joined_convolutions_states_its_attributes() -> None:
    (reason,) = refused_by(HB_MAPPER, joined_norm())
    assert reason.endswith("must state epsilon and momentum in the file")
    (reason,) = refused_by(HB_MAPPER, joined_norm(epsilon=1e-5))
    assert "must state momentum in the file" in reason
    assert refused_by(HB_MAPPER, joined_norm(shared="j")) != ()
    assert refused_by(HB_MAPPER, joined_norm(epsilon=1e-5, momentum=0.9)) == ()
    assert refused_by(HB_COMPILE, joined_norm()) == ()


@pytest.mark.parametrize("changes", [{"axis": 2}, {"operand": "Relu"}, {"shared": "a"}])
def test_a_norm_that_is_not_moved_need_not(changes: dict[str, Any]) -> None:
    assert refused_by(HB_MAPPER, joined_norm(**changes)) == ()


def root(body: str, outputs: str = "") -> ir.Model:
    """A root of four numbers that divides."""
    model = onnx.parser.parse_model(f"""
        <ir_version: 6, opset_import: ["" : 11]>
        g (float[1,4] x) => (float[1,4] y{outputs})
        <float[1] e = {{0.5}}, float[1,4] many = {{1.0, 2.0, 3.0, 4.0}}> {{ {body} }}""")
    return ir.serde.deserialize_model(onnx.shape_inference.infer_shapes(model))


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("r = Sqrt (x) q = Reciprocal (r) y = Mul (q, r)", ""),
        ("r = Sqrt (x) y = Div (x, r)", ", float[1,4] r"),
        ("r = ReduceL2 <axes = [1]> (x) q = Div (x, r) y = Mul (q, r)", ""),
        ("r = Sqrt (x) s = Add (r, e) q = Div (x, s) y = Mul (q, s)", ""),
        ("r = Sqrt (x) s = Add (e, r) q = Div (x, s) y = Mul (q, r)", ""),
        ("s = Add (x, e) r = Sqrt (s) q = Div (x, r) y = Mul (q, s)", ""),
    ],
)
def test_a_root_that_divides_is_read_by_the_division_alone(body: str, outputs: str) -> None:
    model = root(body, outputs)
    (reason,) = refused_by(HB_MAPPER, model)
    assert "a root that divides must be read by that division alone" in reason
    assert refused_by(HB_COMPILE, model) == ()


@pytest.mark.parametrize(
    "body",
    [
        "s = Add (x, e) r = Sqrt (s) y = Div (x, r)",
        "r = Sqrt (x) q = Div (r, x) y = Mul (q, r)",
        "r = Sqrt (x) s = Sub (r, e) q = Div (x, s) y = Mul (q, r)",
        "r = Sqrt (x) s = Add (r, many) q = Div (x, s) y = Mul (q, r)",
        "s = Add (x, many) r = Sqrt (s) q = Div (x, r) y = Mul (q, r)",
        "t = Add (x, e) r = Sqrt (t) s = Add (r, e) q = Div (x, s) y = Mul (q, t)",
    ],
)
def test_other_roots_may_have_other_readers(body: str) -> None:
    assert refused_by(HB_MAPPER, root(body)) == ()


def test_versions_of_a_caffe_model_are_our_own(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "engine.convert"):
        tell_refusals(HB_MAPPER, network(opset=13, ir_version=10), strict=True, caffe=True)
    assert not caplog.records


def test_the_command_follows_the_march() -> None:
    assert [original_tool(march) for march in ("bernoulli2", "bayes-e", "nash-p")] == [HB_MAPPER, HB_MAPPER, HB_COMPILE]


def test_documents_are_narrower_than_the_tool(caplog: pytest.LogCaptureFixture) -> None:
    many, two = network(outputs=33), network(samples=2)
    assert beyond_documents(HB_MAPPER, many) == ("the model has 33 outputs; at most 32 are allowed",)
    assert beyond_documents(HB_MAPPER, two) == ("input x takes 2 samples at once; 1 is allowed",)
    assert beyond_documents(HB_MAPPER, network(outputs=32)) == ()
    with caplog.at_level(logging.WARNING, "engine.convert"):
        tell_refusals(HB_MAPPER, many, strict=True)
    assert "The documents of the original's hb_mapper do not allow this: the model has 33 outputs" in caplog.text


def test_hb_compile_takes_other_versions_and_any_number_of_outputs() -> None:
    assert refused_by(HB_COMPILE, network(opset=19)) == ()
    assert beyond_documents(HB_COMPILE, network(outputs=33, samples=2)) == ()
    assert refused_by(HB_COMPILE, network(opset=9)) == ("opset version of the model is 9; 10 to 19 are supported",)


def test_a_warning_by_default_and_all_reasons_in_one_error_where_strict(caplog: pytest.LogCaptureFixture) -> None:
    model = network(opset=13, ir_version=10)
    with caplog.at_level(logging.WARNING, "engine.convert"):
        tell_refusals(HB_MAPPER, model, strict=False)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    with pytest.raises(UnsupportedError, match=r"hb_mapper refuses this model: opset version .* 13.*; ir version"):
        tell_refusals(HB_MAPPER, model, strict=True)
    tell_refusals(HB_MAPPER, network(), strict=True)
