"""Models that stand for more than they say, or whose names are none, are refused before anything is built of them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, helper, numpy_helper

from engine.errors import ModelError, UnsupportedError
from engine.frontend.onnx import load_onnx
from engine.ir import load_model
from engine.model_bounds import check_bounds, node_count
from tests.engine.frontend.networks import convolution, network, saved


def chain_of_functions(count: int, calls: int) -> onnx.ModelProto:
    """Each of ``count`` functions calls the next one ``calls`` times; the last one is a Relu."""
    model = network([helper.make_node("f0", ["x"], ["y"], domain="local")], {"x": (1, 3, 8, 8)}, ["y"])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("local", 1)]
    model.opset_import.append(opsets[1])
    for index in range(count):
        names = ["a", *(f"t{step}" for step in range(calls - 1)), "b"]
        last = index == count - 1
        body = [
            helper.make_node("Relu" if last else f"f{index + 1}", [before], [after], domain="" if last else "local")
            for before, after in pairwise(names)
        ]
        model.functions.append(helper.make_function("local", f"f{index}", ["a"], ["b"], body, opsets))
    return model


@pytest.mark.parametrize(("count", "calls"), [(1, 3), (3, 2), (40, 2), (1500, 1)])
def test_functions_count_as_what_they_stand_for(count: int, calls: int) -> None:
    assert node_count(chain_of_functions(count, calls)) == calls**count


def test_functions_in_a_circle_count_once() -> None:
    model = chain_of_functions(2, 1)
    model.functions[1].node[0].CopyFrom(helper.make_node("f0", ["a"], ["b"], domain="local"))
    assert node_count(model) == 1


def test_nodes_of_subgraphs_count() -> None:
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["r"])], "g", [], [])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    assert node_count(network(nodes, {"x": (1,), "c": ()}, ["y"])) == 3


def test_functions_that_double_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="more than 20000 nodes of a model, its functions written out"):
        load_onnx(saved(chain_of_functions(40, 2), tmp_path))


def test_the_number_of_nodes_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [helper.make_node("Relu", [f"t{index}"], [f"t{index + 1}"]) for index in range(5)]
    path = saved(network(nodes, {"t0": (1, 2)}, ["t5"]), tmp_path)
    monkeypatch.setenv("PTQLAB_MAX_NODES", "5")
    assert len(load_onnx(path).graph) == 5
    monkeypatch.setenv("PTQLAB_MAX_NODES", "4")
    with pytest.raises(UnsupportedError, match="the model has more than 4 nodes"):
        load_onnx(path)


def renamed(place: str, name: str) -> onnx.ModelProto:
    model = convolution()
    node = model.graph.node[0]
    match place:
        case "node":
            node.name = name
        case "input":
            model.graph.input[0].name = node.input[0] = name
        case "constant":
            model.graph.initializer[0].name = node.input[1] = name
        case _:
            model.graph.output[0].name = node.output[0] = name
    return model


@pytest.mark.parametrize("place", ["node", "input", "constant", "output"])
@pytest.mark.parametrize(
    ("name", "message"),
    [("n" * 100_000, r"the name 'n{40}'… has more than 4096 characters"), ("a\0b", "holds a NUL character")],
)
def test_names_that_are_none(place: str, name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        load_model(saved(renamed(place, name), tmp_path))
    assert len(str(caught.value)) < 500
    assert load_model(saved(renamed(place, "n" * 4096), tmp_path))


def sparse() -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.ones(2, np.float32), "s")
    return helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([0, 1])), [1 << 40])


def test_sparse_tensors_are_refused(tmp_path: Path) -> None:
    initializer, constant, external = convolution(), convolution(), convolution()
    initializer.graph.sparse_initializer.append(sparse())
    node = constant.graph.node.add(op_type="Constant", output=["s"])
    node.attribute.add(name="sparse_value", type=AttributeProto.SPARSE_TENSOR).sparse_tensor.CopyFrom(sparse())
    external.graph.sparse_initializer.append(sparse())
    values = external.graph.sparse_initializer[0].values
    values.data_location = onnx.TensorProto.EXTERNAL
    values.external_data.add(key="location", value="away.bin")
    for model in (initializer, constant, external):
        with pytest.raises(UnsupportedError, match="the model holds a sparse tensor"):
            check_bounds(model, Path("m.onnx"))
        with pytest.raises(UnsupportedError, match="the model holds a sparse tensor"):
            load_onnx(saved(model, tmp_path)) if model is not external else load_external(model, tmp_path)


def load_external(model: onnx.ModelProto, folder: Path) -> None:
    """As :func:`saved` cannot write what it does not find."""
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    load_onnx(folder / "m.onnx")
