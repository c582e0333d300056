"""Results of a subgraph that are wanted in two layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir
import pytest

from engine.chips import load_chip
from engine.convert.layouts import refuse_torn_layouts
from engine.errors import UnsupportedError
from engine.ir import HORIZON_DOMAIN

SHAPE = ir.Shape((1, 2, 3, 4))


def results(*readers: Sequence[str]) -> ir.Model:
    """A subgraph of as many MaxPools as there are ``readers``, each read by these.

    ``NCHW`` is a Transpose to NCHW that a Neg reads, ``NCHW + 1``, ``NCHW * m`` and ``NCHW > m`` one that is added to a
    number, multiplied by a map and compared with one, ``Transpose`` another one, and ``output`` an output.
    """
    x = ir.Value(name="x", shape=SHAPE, type=ir.TensorType(ir.DataType.INT8))
    nodes: list[ir.Node] = []
    outputs: list[ir.Value] = []

    def add(op_type: str, *given: ir.Value, **attributes: Sequence[int]) -> ir.Value:
        domain = HORIZON_DOMAIN if op_type.startswith("Hz") else ""
        kind = ir.DataType.INT8 if op_type == "HzQuantizedMaxPool" else ir.DataType.FLOAT
        result = ir.Value(name=f"v{len(nodes)}", shape=SHAPE, type=ir.TensorType(kind))
        name = f"{op_type}_{len(nodes)}"
        nodes.append(ir.node(op_type, given, dict(attributes), domain=domain, outputs=[result], name=name))
        return result

    number = ir.Value(name="number", shape=ir.Shape(()), type=ir.TensorType(ir.DataType.FLOAT))
    several = ir.Value(name="map", shape=SHAPE, type=ir.TensorType(ir.DataType.FLOAT))
    behind: Mapping[str, tuple[str, tuple[ir.Value, ...]]] = {
        "NCHW": ("Neg", ()),
        "NCHW + 1": ("Add", (number,)),
        "NCHW * m": ("Mul", (several,)),
        "NCHW > m": ("Greater", (several,)),
    }
    for kinds in readers:
        result = add("HzDequantize", add("HzQuantizedMaxPool", x))
        for kind in kinds:
            turned = result
            if kind != "output":
                turned = add("Transpose", result, perm=(0, 3, 2, 1) if kind == "Transpose" else (0, 3, 1, 2))
            op_type, others = behind.get(kind, ("", ()))
            outputs.append(add(op_type, turned, *others) if op_type else turned)
    return ir.Model(ir.Graph([x, number, several], outputs, nodes=nodes, name="g"), ir_version=8)


@pytest.mark.parametrize(
    ("readers", "message"),
    [
        ([("NCHW", "Transpose"), ("NCHW",)], r"Neg_3 \(Neg\) reads as NCHW what Transpose_4 .* Let it read the trans"),
        ([("NCHW",), ("NCHW + 1", "Transpose")], r"Add_7 \(Add\) reads as NCHW what Transpose_8 "),
        ([("NCHW", "output"), ("NCHW",)], r"Neg_3 \(Neg\) reads as NCHW what the model gives in another layout"),
    ],
)
def test_a_result_in_two_layouts_is_refused_where_most_are_read_as_nchw(
    readers: Sequence[Sequence[str]], message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        refuse_torn_layouts(results(*readers), load_chip("bernoulli2"))


@pytest.mark.parametrize(
    ("readers", "march"),
    [
        ([("NCHW", "Transpose"), ("NCHW",)], "bayes-e"),
        ([("NCHW", "Transpose"), ("Transpose",)], "bernoulli2"),
        ([("NCHW", "Transpose")], "bernoulli2"),
        ([("NCHW", "Transpose"), ("NCHW", "Transpose")], "bernoulli2"),
        ([("NCHW",), ("NCHW",), ("Transpose",)], "bernoulli2"),
        ([("NCHW * m", "Transpose"), ("NCHW",)], "bernoulli2"),
        ([("NCHW > m", "Transpose"), ("NCHW",)], "bernoulli2"),
    ],
)
def test_others_are_compiled(readers: Sequence[Sequence[str]], march: str) -> None:
    model = results(*readers)
    refuse_torn_layouts(model, load_chip(march))
    assert len(model.graph.outputs) == sum(map(len, readers))
