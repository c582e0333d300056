"""Sessions: every stage's file, the original's interface, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from engine import HB_ONNXRuntime, Session
from engine.errors import ConfigError, InferenceError, ModelError, UnsupportedError
from engine.ir import load_model, save_model
from engine.optimize import optimize
from engine.simulate import register_loader
from engine.simulate.session import image_inputs, is_quantized
from tests.engine.simulate.models import node_model
from tests.golden_cases import BUNDLED

IMAGE_MODEL = BUNDLED / "conversions" / "p_rgb.quant.onnx"
FEATURE_MODEL = BUNDLED / "conversions" / "res.quant.onnx"


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (2, 3, 32, 32), np.uint8)


def float_model() -> ir.Model:
    """``y = relu(x)`` on (1, 4), with an output shape that the file does not tell."""
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"], "relu")],
        "float",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", "m"])],
    )
    opsets = [onnx.helper.make_opsetid("", 13)]
    return ir.from_proto(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8))


def test_run_subtracts_the_offset_from_images(image: np.ndarray) -> None:
    session = HB_ONNXRuntime(model_file=IMAGE_MODEL)
    (name,) = session.input_names
    shifted = (image.astype(np.int16) - 128).astype(np.int8)
    (from_pixels,) = session.run(session.output_names, {name: image}, input_offset=128)
    (from_floats,) = session.run(None, {name: image.astype(np.float32)})
    (as_they_are,) = session.run_feature(session.output_names, {name: shifted}, input_offset=0)
    (plain,) = session.hb_session.run(session.output_names, {name: shifted})
    for other in (from_floats, as_they_are, plain):
        np.testing.assert_array_equal(from_pixels, other)


def test_run_leaves_feature_maps_alone() -> None:
    session = HB_ONNXRuntime(FEATURE_MODEL)
    (name,) = session.input_names
    x = np.random.default_rng(0).standard_normal((1, 8, 16, 16)).astype(np.float32)
    (expected,) = session.run_feature(None, {name: x})
    (actual,) = session.run(None, {name: x.astype(np.float64)})
    np.testing.assert_array_equal(actual, expected)


def test_inputs_and_outputs_are_described() -> None:
    session = HB_ONNXRuntime(model_file=str(IMAGE_MODEL))
    (given,), (result,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.shape, given.type) == ("data", (1, 3, 32, 32), "tensor(int8)")
    assert (result.name, result.shape, result.type) == ("y", (1, 8, 16, 16), "tensor(float)")
    assert session.output_names == ["y"]


def test_values_outside_the_input_type_are_refused(image: np.ndarray) -> None:
    session = HB_ONNXRuntime(IMAGE_MODEL)
    shifted = (image.astype(np.int16) - 128).astype(np.int8)
    with pytest.raises(InferenceError, match=r"data: .* span -256\.\.-1, expected -128\.\.127 .*input_offset=0"):
        session.run(None, {"data": shifted})


@pytest.mark.parametrize("mode", ["fast", "reference"])
@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({"pixels": np.zeros((1, 3, 32, 32), np.int8)}, r"unknown input pixels; the model's inputs: data \(int8"),
        ({}, "input data is missing"),
        ({"data": np.zeros((1, 3, 32, 32), np.uint8)}, "got type uint8, expected int8"),
        ({"data": np.zeros((1, 32, 32, 3), np.int8)}, r"got shape \[1, 32, 32, 3\], expected \[1, 3, 32, 32\]"),
        ({"data": np.zeros((0, 3, 32, 32), np.int8)}, r"got shape \[0, 3, 32, 32\]"),
    ],
)
def test_wrong_feeds_are_refused(mode: str, feed: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InferenceError, match=message):
        Session(IMAGE_MODEL, mode=mode).run(feed)


def test_unknown_output_is_refused(image: np.ndarray) -> None:
    with pytest.raises(InferenceError, match="unknown output z; the model's outputs: y"):
        HB_ONNXRuntime(IMAGE_MODEL).run(["z"], {"data": image})


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match="mode is 'slow'; allowed: fast, reference"):
        Session(IMAGE_MODEL, mode="slow")


def test_unknown_operator_is_refused() -> None:
    x = np.zeros((1, 2), np.int8)
    model = node_model("HzLut", [x], {}, {1: np.zeros(256, np.int8)})
    next(iter(model.graph)).op_type = "HzQuantizedUnheardOf"
    model.graph.append(ir.node("HzLut", [model.graph.inputs[0], model.graph.initializers["c1"]], domain="horizon"))
    for mode in ("fast", "reference"):
        with pytest.raises(UnsupportedError, match="HzQuantizedUnheardOf is not known"):
            Session(model, mode=mode)


def test_float_model_runs_any_batch() -> None:
    session = Session(float_model())
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    assert session.outputs[0].shape == (1, 4)
    np.testing.assert_array_equal(session.run({"x": x})["y"], np.maximum(x, 0))


def test_model_in_memory_equals_its_file(tmp_path: Path, image: np.ndarray) -> None:
    model = load_model(IMAGE_MODEL)
    before = [node.name for node in model.graph]
    (expected,) = HB_ONNXRuntime(save_model(model, tmp_path / "model.onnx")).run(None, {"data": image})
    np.testing.assert_array_equal(HB_ONNXRuntime(model).run(None, {"data": image})[0], expected)
    assert [node.name for node in model.graph] == before


def test_missing_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such model file"):
        Session(tmp_path / "absent.bin")
    (tmp_path / "text.onnx").write_text("not a model")
    with pytest.raises(ModelError):
        Session(tmp_path / "text.onnx")


def test_registered_formats_are_opened_by_their_first_bytes(tmp_path: Path, image: np.ndarray) -> None:
    register_loader(b"TEST-FORMAT", lambda path: load_model(IMAGE_MODEL))
    path = tmp_path / "model.bin"
    path.write_bytes(b"TEST-FORMAT and more")
    (expected,) = HB_ONNXRuntime(IMAGE_MODEL).run(None, {"data": image})
    np.testing.assert_array_equal(HB_ONNXRuntime(path).run(None, {"data": image})[0], expected)


def test_constant_output_repeats_for_every_sample() -> None:
    x = np.arange(-3, 3, dtype=np.int8).reshape(1, 6)
    table = np.arange(-128, 128).astype(np.int8)
    model = node_model("HzLut", [x], {}, {1: table})
    constant = ir.Value(name="k", const_value=ir.tensor(np.array([[7, 8]], np.int8), name="k"))
    constant.dtype, constant.shape = ir.DataType.INT8, ir.Shape([1, 2])
    model.graph.register_initializer(constant)
    model.graph.outputs.append(constant)
    for mode in ("fast", "reference"):
        result = Session(model, mode=mode).run({"x0": np.repeat(x, 3, axis=0)})
        np.testing.assert_array_equal(result["y"], np.repeat(x, 3, axis=0))
        np.testing.assert_array_equal(result["k"], [[7, 8]] * 3)


BAD_NODES = {
    "weights of other channels": ("HzSQuantizedConv", {"kernel_shape": [1, 1]}, {1: np.ones((2, 1, 1, 9), np.int8)}),
    "groups that do not divide": (
        "HzSQuantizedConv",
        {"kernel_shape": [1, 1], "group": 3},
        {1: np.ones((2, 1, 1, 4), np.int8)},
    ),
    "lists of other channels": (
        "HzSQuantizedConv",
        {"kernel_shape": [1, 1], "scale": [1, 2, 3]},
        {1: np.ones((2, 1, 1, 4), np.int8)},
    ),
    "no such width": (
        "HzSQuantizedConv",
        {"kernel_shape": [1, 1], "output_bit": 12},
        {1: np.ones((2, 1, 1, 4), np.int8)},
    ),
    "short table": ("HzLut", {}, {1: np.zeros(3, np.int8)}),
    "block that does not divide": ("HzDepthToSpace", {"blocksize": 3}, {}),
}


@pytest.mark.parametrize("mode", ["fast", "reference"])
@pytest.mark.parametrize("name", BAD_NODES)
def test_parts_that_do_not_fit_are_a_model_error(name: str, mode: str) -> None:
    op_type, attributes, constants = BAD_NODES[name]
    x = np.full((1, 3, 3, 4), 100, np.int8)
    if op_type == "HzSQuantizedConv":
        constants = {**constants, 2: np.zeros(2, np.int32), 3: np.zeros(2, np.int8)}
    model = node_model(op_type, [x], attributes, constants, output=(np.int8, (1, 3, 3, 2)))
    with pytest.raises(ModelError, match=r"node node \(Hz\w+\) cannot be computed"):
        Session(model, mode=mode).run({"x0": x})


def test_weights_count_where_the_window_attribute_contradicts_them() -> None:
    x, w = np.full((1, 3, 3, 4), 100, np.int8), np.ones((2, 3, 3, 4), np.int8)
    constants = {1: w, 2: np.zeros(2, np.int32), 3: np.zeros(2, np.int8)}
    model = node_model(
        "HzSQuantizedConv", [x], {"kernel_shape": [1, 1], "right_shift": [6]}, constants, output=(np.int8, (1, 1, 1, 2))
    )
    for mode in ("fast", "reference"):
        assert Session(model, mode=mode).run({"x0": x})["y"].tolist() == [[[[56, 56]]]]


@pytest.mark.parametrize("mode", ["fast", "reference"])
def test_tensor_that_nothing_writes_is_a_model_error(mode: str) -> None:
    model = node_model("HzLut", [np.zeros((1, 2), np.int8)], {}, {1: np.zeros(256, np.int8)})
    model.graph[0].replace_input_with(0, ir.Value(name="nowhere"))
    with pytest.raises(ModelError, match="nothing writes"):
        Session(model, mode=mode)


def test_a_float_model_whose_only_composite_has_a_quantised_name_runs_in_float() -> None:
    """``HzChannelShuffle`` is a float operator on NCHW and a quantised one on NHWC."""
    nodes = [
        onnx.helper.make_node("Reshape", ["x", "apart"], ["a"], "apart"),
        onnx.helper.make_node("Transpose", ["a"], ["b"], "swap", perm=[0, 2, 1, 3, 4]),
        onnx.helper.make_node("Reshape", ["b", "together"], ["s"], "together"),
        onnx.helper.make_node("Relu", ["s"], ["y"], "relu"),
    ]
    shapes = {"apart": [1, 2, 2, 3, 3], "together": [1, 4, 3, 3]}
    graph = onnx.helper.make_graph(
        nodes,
        "shuffled",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4, 3, 3])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 4, 3, 3])],
        [onnx.numpy_helper.from_array(np.array(shape, np.int64), name) for name, shape in shapes.items()],
    )
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=8)
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    optimized = optimize(model, "bayes-e")
    assert "HzChannelShuffle" in {node.op_type for node in optimized.graph}
    x = np.random.default_rng(0).normal(size=(1, 4, 3, 3)).astype(np.float32)
    np.testing.assert_array_equal(Session(optimized).run({"x": x})["y"], Session(model).run({"x": x})["y"])


def chain(*types: str, dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Model:
    """Nodes of these types, those with a colon of that domain, one behind the other."""
    x = ir.Value(name="x", type=ir.TensorType(dtype), shape=ir.Shape((1, 3, 2, 2)))
    nodes, value = [], x
    for index, name in enumerate(types):
        domain = "horizon" if name.startswith("Hz") else ""
        result = ir.Value(name=f"t{index}", type=ir.TensorType(dtype), shape=x.shape)
        nodes.append(ir.node(name, [value], domain=domain, outputs=[result], name=f"n{index}"))
        value = result
    return ir.Model(ir.Graph([x], [value], nodes=nodes, opset_imports={"": 13, "horizon": 1}, name="g"), ir_version=8)


@pytest.mark.parametrize(
    ("types", "images"),
    [
        (("HzPreprocess",), ("x",)),
        (("HzSQuantizedPreprocess",), ("x",)),
        (("Transpose", "HzCalibration", "HzPreprocess"), ("x",)),
        (("Relu", "HzPreprocess"), ()),
        (("Transpose", "Relu"), ()),
    ],
)
def test_images_are_what_a_preprocessing_node_reads(types: tuple[str, ...], images: tuple[str, ...]) -> None:
    assert image_inputs(chain(*types)) == images


@pytest.mark.parametrize(
    ("name", "dtype", "quantized"),
    [
        ("HzLut", ir.DataType.INT8, True),
        ("HzLut", ir.DataType.FLOAT, True),
        ("HzChannelShuffle", ir.DataType.INT8, True),
        ("HzChannelShuffle", ir.DataType.FLOAT, False),
        ("HzSwish", ir.DataType.FLOAT, False),
        ("Relu", ir.DataType.INT8, False),
    ],
)
def test_models_are_quantized_where_an_operator_is(name: str, dtype: ir.DataType, quantized: bool) -> None:
    assert is_quantized(chain(name, dtype=dtype)) is quantized


@pytest.mark.parametrize(
    "damage",
    [{"perm": [0, 3, 65, 2]}, {"perm": [0]}, {"perm": [3, 1, 2]}, {"perm": [0, 0, 1, 2]}],
    ids=["axis", "rank", "rank of the reference evaluator", "twice"],
)
def test_a_file_whose_graph_does_not_hold_together_is_a_model_error(
    damage: dict[str, list[int]], tmp_path: Path
) -> None:
    proto = ir.to_proto(load_model(FEATURE_MODEL))
    node = next(node for node in proto.graph.node if node.op_type == "Transpose")
    del node.attribute[:]
    node.attribute.extend(onnx.helper.make_attribute(key, value) for key, value in damage.items())
    (tmp_path / "q.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="cannot be computed"):
        Session(tmp_path / "q.onnx")
