"""What users have goes through the checker and the converter: every version, type and shape that is promised."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from typer.testing import CliRunner, Result

from engine.cli.named import join_pairs
from engine.cli.vendor.hb_mapper import app
from tests.configurations import FEATUREMAP

SHAPE = (1, 3, 16, 16)
CONFIG = FEATUREMAP


def classifier(
    opset: int = 13,
    ir_version: int = 8,
    shape: tuple[Any, ...] = SHAPE,
    dtype: type[np.floating] = np.float32,
    listed: bool = False,
    named: bool = True,
) -> onnx.ModelProto:
    """Convolution to softmax; ``listed``: initializers are inputs as well; ``named``: nodes have names."""
    rng, kind = np.random.default_rng(0), helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def node(op_type: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op_type, inputs.split(), [output], op_type.lower() if named else "", **attributes)

    nodes = [
        node("Conv", "x w b", "c", pads=[1] * 4),
        node("BatchNormalization", "c scale shift mean var", "n"),
        node("Relu", "n", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", "p", "g"),
        node("Flatten", "g", "f"),
        node("Gemm", "f dense bias", "l", transB=1),
        node("Softmax", "l", "y", axis=1),
    ]
    shapes = {"w": (8, 3, 3, 3), "b": (8,), "shift": (8,), "mean": (8,), "dense": (10, 8), "bias": (10,)}
    constants = {name: rng.normal(size=size) for name, size in shapes.items()}
    constants |= {name: rng.uniform(0.5, 1, 8) for name in ("scale", "var")}
    initializers = [numpy_helper.from_array(array.astype(dtype), name) for name, array in constants.items()]
    inputs = [helper.make_tensor_value_info("x", kind, shape)]
    inputs += [helper.make_tensor_value_info(item.name, kind, item.dims) for item in initializers if listed]
    outputs = [helper.make_tensor_value_info("y", kind, (shape[0], 10))]
    graph = helper.make_graph(nodes, "classifier", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def convolutions(inputs: dict[str, tuple[Any, ...]], outputs: int = 1) -> onnx.ModelProto:
    """The sum of a convolution per input, into ``outputs`` outputs."""
    nodes = [helper.make_node("Conv", [name, "w"], [f"c_{name}"], f"conv_{name}") for name in inputs]
    total, *others = [f"c_{name}" for name in inputs]
    for index, other in enumerate(others):
        nodes.append(helper.make_node("Add", [total, other], [f"s{index}"], f"add{index}"))
        total = f"s{index}"
    names = [f"y{index}" for index in range(outputs)]
    nodes += [helper.make_node("Conv", [total, f"v{index}"], [name], name) for index, name in enumerate(names)]
    weights = {"w": (4, 3, 1, 1)} | {f"v{index}": (4, 4, 1, 1) for index in range(outputs)}
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in weights.items()}
    batch = next(iter(inputs.values()))[0]
    graph = helper.make_graph(
        nodes,
        "convolutions",
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, 1, (batch, 4, 16, 16)) for name in names],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@dataclass(frozen=True)
class Folder:
    """A working directory with a model and calibration data."""

    path: Path

    def put(self, model: onnx.ModelProto, data: tuple[str, ...] = ("data",), shape: tuple[int, ...] = SHAPE) -> None:
        """Write ``m.onnx`` and two samples per folder of ``data``."""
        onnx.save(model, self.path / "m.onnx")
        for seed, name in enumerate(data):
            (self.path / name).mkdir()
            for index in range(2):
                sample = np.random.default_rng((seed, index)).normal(size=shape)
                sample.astype(np.float32).tofile(self.path / name / f"{index}.bin")

    def check(self, *options: str) -> Result:
        """``hb_mapper checker``."""
        arguments = ["checker", "--model-type", "onnx", "--march", "bayes-e", "--model", "m.onnx", *options]
        return CliRunner().invoke(app, join_pairs(arguments))

    def convert(self, **inputs: Any) -> Result:
        """``hb_mapper makertbin`` with parameters of the input and calibration groups changed."""
        config = copy.deepcopy(CONFIG)
        for key, value in inputs.items():
            config["calibration_parameters" if key.startswith("cal_") else "input_parameters"][key] = value
        (self.path / "c.yaml").write_text(yaml.safe_dump(config))
        return CliRunner().invoke(app, ["makertbin", "--model-type", "onnx", "--config", "c.yaml"])

    def both(self, options: tuple[str, ...] = (), **inputs: Any) -> None:
        """Check and convert, both with success."""
        for result in (self.check(*options), self.convert(**inputs)):
            assert result.exit_code == 0, result.output
        assert (self.path / "out" / "m.bin").is_file()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path)


@pytest.mark.parametrize("opset", range(9, 20))
def test_opsets(folder: Folder, opset: int) -> None:
    folder.put(classifier(opset=opset))
    folder.both()


@pytest.mark.parametrize("ir_version", range(3, 11))
def test_ir_versions(folder: Folder, ir_version: int) -> None:
    folder.put(classifier(opset=11, ir_version=ir_version, listed=ir_version == 3))
    folder.both()


@pytest.mark.parametrize(
    "options",
    [{"listed": True}, {"named": False}, {"dtype": np.float16}, {"dtype": np.float64}, {"shape": (4, *SHAPE[1:])}],
    ids=["initializers are inputs", "nodes without names", "float16", "float64", "batch 4"],
)
def test_kinds_of_models(folder: Folder, options: dict[str, Any]) -> None:
    folder.put(classifier(**options), shape=options.get("shape", SHAPE))
    folder.both()


def test_every_opset_gives_the_same_integers(folder: Folder) -> None:
    from engine.simulate import Session

    results: list[NDArray[Any]] = []
    x = np.random.default_rng(9).normal(size=SHAPE).astype(np.float32)
    folder.put(classifier())
    for opset in (9, 11, 13, 18, 19):
        onnx.save(classifier(opset), folder.path / "m.onnx")
        assert folder.convert().exit_code == 0
        results += Session(folder.path / "out" / "m_quantized_model.onnx").run({"x": x}).values()
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("shape", [("n", 3, 16, 16), ("n", 3, "h", "w"), (-1, 3, 16, 16)])
def test_dynamic_shapes(folder: Folder, shape: tuple[Any, ...]) -> None:
    folder.put(classifier(shape=shape))
    folder.both(("--input-shape", "x", "1x3x16x16"), input_shape="1x3x16x16")


def test_the_checker_takes_another_shape(folder: Folder) -> None:
    """A shape given to the checker precedes that of the model, if the network can have it."""
    folder.put(classifier())
    assert folder.check("--input-shape", "x", "1x3x32x24").exit_code == 0
    refused = folder.check("--input-shape", "x", "1x4x16x16")
    assert refused.exit_code == 255
    assert "node 'conv' (Conv): an input of shape (1, 4, 16, 16)" in refused.output


def indexed(kind: int) -> onnx.ModelProto:
    """A convolution, some channels of whose result the second input ``i`` of element type ``kind`` chooses."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Cast", ["i"], ["j"], "index", to=onnx.TensorProto.INT64),
        helper.make_node("Gather", ["c", "j"], ["y"], "gather", axis=1),
    ]
    weight = np.random.default_rng(0).normal(size=(8, 3, 1, 1)).astype(np.float32)
    values = (("x", 1, SHAPE), ("i", kind, (2,)), ("y", 1, (1, 2, 16, 16)))
    x, i, y = (helper.make_tensor_value_info(*value) for value in values)
    graph = helper.make_graph(nodes, "indexed", [x, i], [y], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("given", [np.int64, np.float32, np.uint8])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.bool_, np.float64])
def test_inputs_that_are_no_float32(folder: Folder, kind: type[np.generic], given: type[np.generic]) -> None:
    folder.put(indexed(helper.np_dtype_to_tensor_dtype(np.dtype(kind))))
    (folder.path / "index").mkdir()
    for sample in range(2):
        np.save(folder.path / "index" / f"{sample}.npy", np.array([1, 0], given))
    folder.both(**_two("x;i", "data;index"))


def test_data_must_hold_values_of_the_input(folder: Folder) -> None:
    folder.put(indexed(onnx.TensorProto.INT32))
    (folder.path / "index").mkdir()
    for sample in range(2):
        np.save(folder.path / "index" / f"{sample}.npy", np.array([0.5, 1]))
    result = folder.convert(**_two("x;i", "data;index"))
    assert result.exit_code == 255
    assert "index/0.npy: holds values that are not of type int32, the type of input 'i'" in result.output


def test_constant_outputs(folder: Folder) -> None:
    """A constant is an output by itself, and as the mask of a ``Dropout``."""
    model = classifier()
    model.graph.node.append(helper.make_node("Dropout", ["p"], ["q", "mask"], "dropout"))
    for name in ("w", "mask", "q"):
        kind = onnx.TensorProto.BOOL if name == "mask" else onnx.TensorProto.FLOAT
        model.graph.output.append(helper.make_tensor_value_info(name, kind, None))
    folder.put(model)
    folder.both()


def test_only_the_second_output_is_read(folder: Folder) -> None:
    """Where the largest values are is an output, the values themselves are not; its layout changes back and forth."""
    weight = np.random.default_rng(0).normal(size=(4, 3, 1, 1)).astype(np.float32)
    constants = {"w": weight, "k": np.array([3]), "shape": np.array([1, 16, 8, 6])}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("TopK", ["c", "k"], ["v", "i"], "top", axis=1),
        helper.make_node("Transpose", ["i"], ["t"], "there", perm=[0, 3, 1, 2]),
        helper.make_node("Reshape", ["t", "shape"], ["r"], "reshape"),
        helper.make_node("Transpose", ["r"], ["y"], "back", perm=[0, 2, 3, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "largest",
        [helper.make_tensor_value_info("x", 1, SHAPE)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT64, (1, 8, 6, 16))],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    folder.put(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8))
    folder.both()


def test_shapes_that_depend_on_the_data(folder: Folder) -> None:
    model = classifier()
    nodes = [
        helper.make_node("Unique", ["y"], ["u"], "unique"),
        helper.make_node("ReduceSum", ["u"], ["z"], "sum", keepdims=0),
    ]
    model.graph.node.extend(nodes)
    model.graph.output.append(helper.make_tensor_value_info("z", 1, []))
    folder.put(model)
    for result in (folder.check(), folder.convert()):
        assert result.exit_code == 255
        assert "HorizonRT not support these cpu operators: Unique" in result.output


def test_several_dynamic_inputs(folder: Folder) -> None:
    folder.put(convolutions({"a": ("n", *SHAPE[1:]), "b": ("n", *SHAPE[1:])}), ("da", "db"))
    folder.both(
        ("--input-shape", "a", "1x3x16x16", "--input-shape", "b", "1x3x16x16"),
        **_two("a;b", "da;db"),
        input_shape="1x3x16x16;1x3x16x16",
    )


def _two(names: str, data: str) -> dict[str, str]:
    return {
        "input_name": names,
        "input_type_train": "featuremap;featuremap",
        "input_type_rt": "featuremap;featuremap",
        "input_layout_train": "NCHW;NCHW",
        "cal_data_dir": data,
        "cal_data_type": "float32;float32",
    }


@pytest.mark.parametrize(("names", "data"), [("a;b", "da;db"), (" b; a ", "db; da"), ("b;a;", "db;da;")])
def test_lists_of_inputs(folder: Folder, names: str, data: str) -> None:
    folder.put(convolutions({"a": SHAPE, "b": SHAPE}), ("da", "db"))
    folder.both(**_two(names, data))


def test_an_image_and_a_feature_map(folder: Folder) -> None:
    folder.put(convolutions({"a": SHAPE, "b": SHAPE}), ("da", "db"))
    folder.both(
        **_two("a;b", "da;db")
        | {
            "input_type_train": "rgb;featuremap",
            "input_type_rt": "nv12;featuremap",
            "norm_type": "data_mean_and_scale;no_preprocess",
            "mean_value": "1 2 3;None",
            "scale_value": "0.1;None",
        }
    )


@pytest.mark.parametrize("key", ["input_type_rt", "input_layout_train", "cal_data_dir", "cal_data_type"])
def test_lists_of_other_lengths_are_refused(folder: Folder, key: str) -> None:
    folder.put(convolutions({"a": SHAPE, "b": SHAPE}), ("da", "db"))
    entries = _two("a;b", "da;db")
    result = folder.convert(**entries | {key: entries[key].split(";")[0]})
    assert result.exit_code == 255
    log = (folder.path / "hb_mapper_makertbin.log").read_text()
    shown = "cal_dir" if key == "cal_data_dir" else key
    assert f"Wrong {shown} num given, {shown} num 1 is not equal to input num 2" in log
    assert not (folder.path / "out").exists()


@pytest.mark.parametrize("outputs", [32, 33])
def test_many_outputs(folder: Folder, outputs: int) -> None:
    """The documents allow 32; the measured tool converts 33 without a word (reference/calibration.md 6)."""
    folder.put(convolutions({"x": SHAPE}, outputs))
    folder.both()


def _moved(folder: Folder, location: str, link: Callable[[Path, Path], None] | None = None) -> None:
    """The model with its weights in ``location``, linked to a file above the folder by ``link``."""
    folder.put(classifier())
    path = folder.path / "m.onnx"
    onnx.save(classifier(), path, save_as_external_data=True, location="weights", size_threshold=0)
    model = onnx.load(path, load_external_data=False)
    for entry in (entry for tensor in model.graph.initializer for entry in tensor.external_data):
        if entry.key == "location":
            entry.value = location
    path.write_bytes(model.SerializeToString())
    target = folder.path / location
    target.parent.mkdir(exist_ok=True)
    if link is None:
        (folder.path / "weights").rename(target)
    else:
        outside = folder.path.parent / f"{folder.path.name}-outside"
        (folder.path / "weights").rename(outside)
        link(outside, target)


@pytest.mark.parametrize("location", ["data.bin", "sub/data.bin"])
def test_external_data(folder: Folder, location: str) -> None:
    _moved(folder, location)
    folder.both()


@pytest.mark.parametrize(
    ("location", "link"),
    [
        ("../data.bin", None),
        ("sub/../../data.bin", None),
        ("linked", lambda outside, target: target.symlink_to(outside)),
    ],
    ids=["parent", "by a folder", "symbolic link"],
)
def test_external_data_elsewhere_are_refused(
    folder: Folder, location: str, link: Callable[[Path, Path], None] | None
) -> None:
    (folder.path / "sub").mkdir()
    _moved(folder, location, link)
    for result in (folder.check(), folder.convert()):
        assert result.exit_code == 255
        assert f"its data {location!r} lie outside the model's folder" in result.output
    assert not (folder.path / "out").exists()


def test_external_data_in_a_linked_folder_are_refused(folder: Folder) -> None:
    outside = folder.path.parent / f"{folder.path.name}-outside"
    outside.mkdir()
    (folder.path / "sub").symlink_to(outside)
    _moved(folder, "sub/data.bin")
    assert (outside / "data.bin").exists()
    for result in (folder.check(), folder.convert()):
        assert result.exit_code == 255
        assert "its data 'sub/data.bin' lie outside the model's folder" in result.output
    assert not (folder.path / "out").exists()
