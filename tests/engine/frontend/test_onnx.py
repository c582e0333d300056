"""ONNX files to source models: what is accepted, what is refused and how."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from engine.errors import ConfigError, ModelError, PtqlabError, UnsupportedError
from engine.frontend.onnx import input_names, load_onnx, read_onnx
from tests.engine.frontend.networks import convolution, network, saved


@pytest.mark.parametrize("opset", range(9, 20))
def test_supported_opsets(tmp_path: Path, opset: int) -> None:
    model = load_onnx(saved(convolution(opset), tmp_path))
    assert model.opset_imports[""] == opset
    assert model.graph.outputs[0].shape == (1, 4, 6, 6)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            network([helper.make_node("Fancy", ["x"], ["y"], domain="my.ops")], {"x": [1]}, ["y"]),
            "of domain 'my.ops'; allowed are ai.onnx",
        ),
        (
            network([helper.make_node("HzSQuantizedConv", ["x"], ["y"], domain="horizon")], {"x": [1]}, ["y"]),
            "of domain 'horizon'; a conversion wrote this model; give the float model",
        ),
    ],
)
def test_refused_models(tmp_path: Path, model: onnx.ModelProto, text: str) -> None:
    for domain in {node.domain for node in model.graph.node} - {""}:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    path = saved(model, tmp_path)
    with pytest.raises(UnsupportedError) as caught:
        load_onnx(path)
    assert text in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_dynamic_input_needs_a_shape(tmp_path: Path) -> None:
    path = saved(convolution(shape=("N", 3, 8, "W")), tmp_path)
    with pytest.raises(
        ModelError,
        match=r"input 'x' \?x3x8x\? is a dynamic shape. Please give the sizes, for example: --input-shape x=1x3x8x1 ",
    ):
        load_onnx(path)
    model = load_onnx(path, {"x": (1, 3, 8, 10)})
    assert model.graph.inputs[0].shape == (1, 3, 8, 10)
    assert model.graph.outputs[0].shape == (1, 4, 6, 8)


def test_a_static_input_may_be_repeated_but_not_contradicted(tmp_path: Path) -> None:
    path = saved(convolution(), tmp_path)
    assert load_onnx(path, {"x": (1, 3, 8, 8)}).graph.inputs[0].shape == (1, 3, 8, 8)
    with pytest.raises(ConfigError, match=r"input_shape 1x3x9x8 of 'x' contradicts the model, whose shape is 1x3x8x8"):
        load_onnx(path, {"x": (1, 3, 9, 8)})
    with pytest.raises(ConfigError, match="given for 'X'"):
        load_onnx(path, {"X": (1, 3, 8, 8)})


def test_shapes_behind_computed_constants_are_found(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Unsqueeze", ["batch", "axes"], ["batch1"]),
        helper.make_node("Concat", ["batch1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "axes": np.array([0]), "rest": np.array([-1])}
    model = load_onnx(saved(network(nodes, {"x": ["N", 3, 4]}, ["y"], constants), tmp_path), {"x": (2, 3, 4)})
    assert model.graph.outputs[0].shape == (2, 12)


def test_nodes_get_unique_names(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", [a], [b], name=n) for a, b, n in [("x", "a", ""), ("a", "b", "r"), ("b", "c", "r")]
    ]
    nodes.append(helper.make_node("Relu", ["c"], ["y"], name="Relu_0"))
    model = load_onnx(saved(network(nodes, {"x": [2]}, ["y"]), tmp_path))
    names = [node.name for node in model.graph]
    assert len(set(names)) == 4
    assert names[1] == "r"
    assert all(names)
    assert names[3] == "Relu_0"


def test_thirty_three_outputs_are_no_error(tmp_path: Path) -> None:
    outputs = [f"y{i}" for i in range(33)]
    model = network([helper.make_node("Relu", ["x"], [name]) for name in outputs], {"x": [2]}, outputs)
    assert len(load_onnx(saved(model, tmp_path)).graph.outputs) == 33


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    model = network([helper.make_node("Double", ["x"], ["y"], domain="local")], {"x": [2]}, ["y"])
    body = helper.make_node("Add", ["a", "a"], ["b"])
    model.functions.append(helper.make_function("local", "Double", ["a"], ["b"], [body], [helper.make_opsetid("", 13)]))
    model.opset_import.append(helper.make_opsetid("local", 1))
    assert [node.op_type for node in load_onnx(saved(model, tmp_path)).graph] == ["Add"]


def test_initializers_are_no_inputs(tmp_path: Path) -> None:
    model = convolution(ir_version=3)
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3, 3, 3]))
    path = saved(model, tmp_path)
    assert input_names(read_onnx(path)) == ("x",)
    assert [value.name for value in load_onnx(path).graph.inputs] == ["x"]


def test_inputs_must_be_tensors(tmp_path: Path) -> None:
    model = network([helper.make_node("SequenceLength", ["s"], ["n"])], {"x": [1]}, [])
    model.graph.input.append(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [1]))
    model.graph.output.append(helper.make_tensor_value_info("n", TensorProto.INT64, []))
    with pytest.raises(UnsupportedError, match="only tensors are supported"):
        load_onnx(saved(model, tmp_path))


def behind(*nodes: onnx.NodeProto, outputs: tuple[str, ...] = ("z",), **constants: object) -> onnx.ModelProto:
    """:func:`convolution` and ``nodes`` behind its output ``y``."""
    return network(
        [*convolution().graph.node, *nodes],
        {"x": (1, 3, 8, 8)},
        outputs,
        {"w": np.ones((4, 3, 3, 3), np.float32), **constants},
        19,
        9,
    )


@pytest.mark.parametrize("kind", [TensorProto.STRING, TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN])
def test_types_that_no_container_holds_are_refused(tmp_path: Path, kind: int) -> None:
    model = behind(helper.make_node("Cast", ["y"], ["t"], to=kind), helper.make_node("Cast", ["t"], ["z"], to=1))
    with pytest.raises(UnsupportedError, match=r"tensor 't' is of type .*; supported are bool, double, float, "):
        load_onnx(saved(model, tmp_path))


def test_outputs_must_be_tensors(tmp_path: Path) -> None:
    model = behind(helper.make_node("SequenceConstruct", ["y"], ["s"]), outputs=("y",))
    model.graph.output.append(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None))
    with pytest.raises(UnsupportedError, match=r"'s' is of type Sequence.*; only tensors are supported"):
        load_onnx(saved(model, tmp_path))


def test_an_input_is_no_output(tmp_path: Path) -> None:
    model = behind(outputs=("y",))
    model.graph.output.append(model.graph.input[0])
    with pytest.raises(UnsupportedError, match="output 'x' is an input of the model as it is"):
        load_onnx(saved(model, tmp_path))


def test_outputs_are_listed_once(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="output 'y' is listed twice"):
        load_onnx(saved(behind(outputs=("y", "y")), tmp_path))


def test_training_mode_is_refused(tmp_path: Path) -> None:
    names = ["g", "h", "m", "v"]
    node = helper.make_node("BatchNormalization", ["y", *names], ["z", "p", "q"], "norm", training_mode=1)
    with pytest.raises(UnsupportedError, match=r"'norm' .* is in training mode; export the model for inference"):
        load_onnx(saved(behind(node, **dict.fromkeys(names, np.ones(4, np.float32))), tmp_path))


def test_recurrent_cells_with_the_batch_first_are_refused(tmp_path: Path) -> None:
    weights = {name: np.ones((1, 8, 2), np.float32) for name in ("p", "q")}
    node = helper.make_node("LSTM", ["x", "p", "q"], ["y"], "cell", hidden_size=2, layout=1)
    model = network([node], {"x": (1, 3, 2)}, ["y"], weights, 14)
    with pytest.raises(UnsupportedError, match=r"node 'cell' \(LSTM\) has layout 1; export it with layout 0"):
        load_onnx(saved(model, tmp_path))


def test_parts_that_are_left_out_get_names(tmp_path: Path) -> None:
    """ONNX Runtime 1.31 ends the process at a ``Split`` whose last output has no name."""
    path = saved(behind(helper.make_node("Split", ["y"], ["z", ""], "split", axis=1, num_outputs=2)), tmp_path)
    model = load_onnx(path)
    assert [value.name for value in model.graph[-1].outputs] == ["z", "split_part_1"]
    assert [value.shape for value in model.graph[-1].outputs] == [(1, 2, 6, 6)] * 2


def test_data_dependent_outputs_are_refused(tmp_path: Path) -> None:
    model = network(
        [helper.make_node("NonZero", ["x"], ["n"]), helper.make_node("Cast", ["n"], ["y"], to=1)], {"x": [4]}, ["y"]
    )
    with pytest.raises(UnsupportedError, match="depends on the data"):
        load_onnx(saved(model, tmp_path))


def test_the_checker_runs(tmp_path: Path) -> None:
    model = convolution()
    model.graph.node[0].input[1] = "absent"
    with pytest.raises(ModelError, match="not a valid ONNX model"):
        load_onnx(saved(model, tmp_path))


def test_external_data_stay_in_the_folder(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    model = convolution()
    onnx.save(model, inside / "good.onnx", save_as_external_data=True, location="good.data", size_threshold=0)
    assert load_onnx(inside / "good.onnx").graph.outputs[0].shape == (1, 4, 6, 6)
    (inside / "good.data").rename(tmp_path / "good.data")
    escaping = onnx.load(inside / "good.onnx", load_external_data=False)
    for entry in escaping.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../good.data"
    (inside / "bad.onnx").write_bytes(escaping.SerializeToString())
    with pytest.raises(ModelError):
        load_onnx(inside / "bad.onnx")


def test_garbage_is_a_model_error(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x00garbage")
    with pytest.raises(ModelError, match=r"Error parsing message with type 'onnx.ModelProto'|not an ONNX model"):
        load_onnx(path)
    with pytest.raises(ModelError, match="no such model file"):
        load_onnx(tmp_path / "absent.onnx")


GOOD = convolution().SerializeToString()


@given(position=st.integers(0, len(GOOD) - 1), value=st.integers(0, 255), cut=st.booleans())
def test_damaged_files_never_raise_anything_else(
    tmp_path_factory: pytest.TempPathFactory, position: int, value: int, cut: bool
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "m.onnx"
    path.write_bytes(GOOD[:position] if cut else GOOD[:position] + bytes([value]) + GOOD[position + 1 :])
    with contextlib.suppress(PtqlabError):
        load_onnx(path)


@pytest.mark.parametrize("text", [b"Conv_0", b"Conv", b"network", b"y"])
def test_names_must_be_text(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(GOOD.replace(text, b"\xff" * len(text)))
    with pytest.raises(ModelError, match="is not UTF-8"):
        load_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("inputs", "outputs", "attributes"),
    [([], ["c"], {}), (["x"], [], {}), ([""], ["c"], {}), (["x"], ["c"], {"thresholds": ["a", "b"]})],
)
def test_damaged_calibration_nodes(
    tmp_path: Path, inputs: list[str], outputs: list[str], attributes: dict[str, list[str]]
) -> None:
    model = convolution()
    model.opset_import.append(helper.make_opsetid("horizon", 1))
    node = helper.make_node("HzCalibration", inputs, outputs, "calibration", domain="horizon", **attributes)
    model.graph.node.insert(0, node)
    with pytest.raises(ModelError, match=r"HzCalibration has no input or no output|has an attribute of a wrong type"):
        load_onnx(saved(model, tmp_path))


@pytest.mark.parametrize("change", [-4, -1, 1, 4])
def test_data_must_fit_the_shape(tmp_path: Path, change: int) -> None:
    model = convolution()
    data = model.graph.initializer[0].raw_data
    model.graph.initializer[0].raw_data = data[:change] if change < 0 else data + data[:change]
    with pytest.raises(ModelError, match="tensor 'w': its data do not fit its shape and type"):
        load_onnx(saved(model, tmp_path))


def test_a_model_has_nodes_and_inputs(tmp_path: Path) -> None:
    empty = network([], {"x": [1, 3]}, [])
    empty.graph.output.append(empty.graph.input[0])
    with pytest.raises(ModelError, match="the model has no nodes"):
        load_onnx(saved(empty, tmp_path))
    constant = network([helper.make_node("Identity", ["w"], ["y"])], {}, ["y"], {"w": np.zeros(3, np.float32)})
    with pytest.raises(ModelError, match="the model has no inputs"):
        load_onnx(saved(constant, tmp_path))


def test_functions_that_call_each_other_are_an_error_of_the_model(tmp_path: Path) -> None:
    imports = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function("own", name, ["a"], ["b"], [helper.make_node(other, ["a"], ["b"], domain="own")], imports)
        for name, other in (("First", "Second"), ("Second", "First"), ("Own", "Own"))
    ]
    for called in ("First", "Own"):
        node = helper.make_node(called, ["x"], ["y"], "n", domain="own")
        value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 3)) for name in "xy"]
        graph = helper.make_graph([node], "g", value[:1], value[1:])
        model = helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=8)
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(ModelError, match="its functions cannot be inlined: Cyclic dependency"):
            load_onnx(tmp_path / "m.onnx")
