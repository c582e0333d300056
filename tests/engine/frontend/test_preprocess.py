"""HzPreprocess: the original's coefficients, names and attributes; equal to preprocessing by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from onnx import numpy_helper

from engine.config import Config, InputSpec, load_config
from engine.errors import ConfigError, UnsupportedError
from engine.frontend import colour, parse
from engine.frontend.onnx import load_onnx
from engine.frontend.preprocess import insert, saved_inputs
from engine.ir import to_bytes
from engine.ops.foreign.composite import expand_composites
from engine.terms import Layout
from tests.engine.frontend.images import as_trained, to_model_input
from tests.engine.frontend.networks import convolution, network, saved

GOLDENS = ("p_rgb", "p_gray", "p_imn", "p_mean", "p_nv12", "p_rgb2bgr", "p_yuv")


@pytest.mark.reference
@pytest.mark.parametrize("name", GOLDENS)
def test_node_equals_the_originals(reference_dir: Path, name: str) -> None:
    folder = reference_dir / "golden" / "conversions"
    source, specs = parse(load_config(folder / f"{name}.yaml"))
    node = insert(source, specs).graph.node("HZ_PREPROCESS_FOR_data")
    golden = onnx.load(folder / f"{name}.calib.onnx").graph
    expected = next(item for item in golden.node if item.name == node.name)
    assert {key: attr.value for key, attr in node.attributes.items()} == {
        item.name: value.decode() if isinstance(value := onnx.helper.get_attribute_value(item), bytes) else value
        for item in expected.attribute
    }
    assert node.outputs[0].name == expected.output[0]
    arrays = {item.name: numpy_helper.to_array(item) for item in golden.initializer}
    for value in node.inputs[1:]:
        np.testing.assert_array_equal(value.const_value.numpy(), arrays[value.name], strict=True)


def test_a_node_stands_in_front_of_the_first_that_reads_its_image(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Relu", ["y"], ["r"], name="r"), onnx.helper.make_node("Add", ["r", "x"], ["s"])]
    nodes.append(onnx.helper.make_node("Add", ["s", "y"], ["z"], name="z"))
    images = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 3, 4, 4]) for name in "xyz"]
    graph = onnx.helper.make_graph(nodes, "images", images[:2], images[2:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=8)
    specs = [InputSpec(name=name, type_train="rgb", type_rt="rgb") for name in "xy"]
    found = [node.op_type for node in insert(load_onnx(saved(model, tmp_path)), specs).graph]
    assert found == ["HzPreprocess", "Relu", "HzPreprocess", "Add", "Add"]


def test_an_image_is_float32_in_the_model(tmp_path: Path) -> None:
    model = convolution()
    model.graph.input[0].name = "pixels"
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    model.graph.node.insert(0, onnx.helper.make_node("Cast", ["pixels"], ["x"], to=1))
    spec = InputSpec(name="pixels", type_train="rgb", type_rt="rgb")
    with pytest.raises(ConfigError, match="input 'pixels': an image must be float32 in the model, its input is UINT8"):
        insert(load_onnx(saved(model, tmp_path)), [spec])


@pytest.mark.parametrize(
    "norm", [("data_mean_and_scale", (3.5, 7.0, 90.25), (0.5, 0.01, 2.0)), ("data_scale", (), (0.017,))]
)
@pytest.mark.parametrize("train", ["rgb", "bgr"])
@pytest.mark.parametrize("runtime", ["rgb", "bgr", "yuv444", "nv12"])
def test_equals_preprocessing_by_hand(
    tmp_path: Path, train: str, runtime: str, norm: tuple[str, tuple[float, ...], tuple[float, ...]]
) -> None:
    kind, mean, scale = norm
    spec = InputSpec(name="x", type_train=train, type_rt=runtime, norm_type=kind, mean=mean, scale=scale)
    source = load_onnx(saved(convolution(), tmp_path))
    pixels = np.random.default_rng(2).integers(0, 256, (1, 8, 8, 3), dtype=np.uint8)
    image = colour.convert_colour(pixels, spec.type_train, spec.type_rt)
    by_hand = (as_trained(image, spec) - np.float32(mean or 0)) * np.float32(scale)
    (expected,) = onnxruntime.InferenceSession(to_bytes(source)).run(None, {"x": by_hand.transpose(0, 3, 1, 2)})
    (actual,) = onnxruntime.InferenceSession(to_bytes(expand_composites(insert(source, [spec])))).run(
        None, {"x": to_model_input(image, spec)}
    )
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5 * float(np.abs(expected).max()))


def test_channels_last_models(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), convolution().graph.node[0]]
    nodes[1].input[0] = "t"
    weight = numpy_helper.to_array(convolution().graph.initializer[0])
    source = load_onnx(saved(network(nodes, {"x": [1, 8, 8, 3]}, ["y"], {"w": weight}), tmp_path))
    spec = InputSpec(
        name="x", type_train="rgb", type_rt="yuv444", layout_train="NHWC", norm_type="data_mean", mean=(1.0, 2.0, 3.0)
    )
    original = insert(source, [spec])
    node = original.graph[0]
    assert node.attributes["data_format"].value == "NHWC"
    pixels = np.random.default_rng(1).integers(0, 256, (1, 8, 8, 3), dtype=np.uint8)
    (expected,) = onnxruntime.InferenceSession(to_bytes(source)).run(
        None, {"x": as_trained(pixels, spec) - np.float32([1, 2, 3])}
    )
    (actual,) = onnxruntime.InferenceSession(to_bytes(expand_composites(original))).run(
        None, {"x": to_model_input(pixels, spec)}
    )
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-2)


def test_feature_maps_get_no_node_and_specs_are_kept(tmp_path: Path) -> None:
    source = load_onnx(saved(convolution(), tmp_path))
    specs = [InputSpec(name="x", layout_train=Layout.NCHW)]
    original = insert(source, specs)
    assert [node.op_type for node in original.graph] == ["Conv"]
    assert saved_inputs(original) == tuple(specs)
    assert saved_inputs(source) == ()


def test_the_source_is_not_changed(tmp_path: Path) -> None:
    source = load_onnx(saved(convolution(), tmp_path))
    before = to_bytes(source)
    insert(source, [InputSpec(name="x", type_train="rgb", type_rt="rgb")])
    assert to_bytes(source) == before


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": "X"}, "input_name 'X' is not an input of the model"),
        ({"type_train": "gray", "type_rt": "gray"}, "'gray' has 1 channel"),
        ({"layout_train": "NHWC"}, "in layout NHWC has 8"),
        ({"norm_type": "data_mean", "mean": (1.0, 2.0)}, "mean_value has 2 values, allowed are 1 or 3"),
    ],
)
def test_wrong_specs(tmp_path: Path, changes: dict[str, object], text: str) -> None:
    source = load_onnx(saved(convolution(), tmp_path))
    spec = InputSpec.model_validate({"name": "x", "type_train": "rgb", "type_rt": "rgb", **changes})
    with pytest.raises(ConfigError, match=text):
        insert(source, [spec])


def test_odd_images_cannot_be_yuv(tmp_path: Path) -> None:
    source = load_onnx(saved(convolution(shape=(1, 3, 9, 8)), tmp_path))
    with pytest.raises(ConfigError, match="needs even height and width, the model's input is 9x8"):
        insert(source, [InputSpec(name="x", type_train="rgb", type_rt="nv12")])
    with pytest.raises(UnsupportedError, match="not supported transform to input_type_rt 'gray'"):
        insert(source, [InputSpec(name="x", type_train="rgb", type_rt="gray")])


def test_parse_applies_the_configured_shape(tmp_path: Path) -> None:
    saved(convolution(shape=("N", 3, 8, 8)), tmp_path)
    content = {
        "model_parameters": {"onnx_model": "m.onnx", "march": "bayes", "output_model_file_prefix": "m"},
        "input_parameters": {
            "input_type_train": "rgb",
            "input_layout_train": "NCHW",
            "input_type_rt": "rgb",
            "input_shape": "1x3x8x8",
        },
        "calibration_parameters": {"calibration_type": "skip"},
    }
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(content))
    config: Config = load_config(tmp_path / "x.yaml")
    source, (spec,) = parse(config)
    assert source.graph.inputs[0].shape == (1, 3, 8, 8)
    assert spec.name == "x"
