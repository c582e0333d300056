"""Files to layers: which run at test time, older forms, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import ModelError
from engine.frontend.caffe import load_caffe
from engine.frontend.caffe.reader import checked_shape, read_blobs, read_prototxt, tensor_shape
from engine.frontend.caffe.schema import message_class
from tests.engine.frontend.caffe.networks import convolve, pool, run, written
from tests.engine.frontend.caffe.test_package import DATA


def test_older_files(tmp_path: Path) -> None:
    text = """
    input: "data" input_dim: 1 input_dim: 2 input_dim: 6 input_dim: 6
    layers { name: "c" type: CONVOLUTION bottom: "data" top: "c" convolution_param { num_output: 3 kernel_size: 3 } }
    layers { name: "r" type: RELU bottom: "c" top: "c" }
    layers { name: "p" type: POOLING bottom: "c" top: "p" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
    layers { name: "ip" type: INNER_PRODUCT bottom: "p" top: "ip" inner_product_param { num_output: 5 } }
    """
    rng = np.random.default_rng(0)
    shapes = {"c": [(3, 2, 3, 3), (3,)], "ip": [(5, 12), (5,)]}
    blobs = {name: [rng.normal(size=shape).astype(np.float32) for shape in items] for name, items in shapes.items()}
    x = rng.normal(size=(1, 2, 6, 6)).astype(np.float32)
    (y,) = run(load_caffe(*written(tmp_path, text, blobs, legacy=True)), x)
    hidden = pool(np.maximum(convolve(x, *blobs["c"], 1, 0), 0), 3, 2, 0, average=False)
    np.testing.assert_allclose(y, hidden.reshape(1, -1) @ blobs["ip"][0].T + blobs["ip"][1], rtol=1e-4, atol=1e-5)


def test_layers_of_training_are_left_out(tmp_path: Path) -> None:
    text = """
    layer { name: "d" type: "Data" top: "data" top: "label" include { phase: TRAIN } data_param { backend: LMDB } }
    layer { name: "d" type: "Data" top: "data" top: "label" include { phase: TEST } transform_param { crop_size: 4 } }
    layer { name: "r" type: "ReLU" bottom: "data" top: "r" }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "r" bottom: "label" top: "loss" include { phase: TRAIN } }
    layer { name: "a" type: "Accuracy" bottom: "r" bottom: "label" top: "a" exclude { phase: TEST } }
    """
    paths = written(tmp_path, text)
    with pytest.raises(ModelError, match="is a dynamic shape"):
        load_caffe(*paths)
    model = load_caffe(*paths, {"data": (1, 3, 4, 4)})
    assert [node.op_type for node in model.graph] == ["Relu"]


def test_unknown_fields_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = DATA + 'layer { name: "r" type: "ReLU" bottom: "data" top: "r" fancy_param { level: 3 } }'
    assert isinstance(load_caffe(*written(tmp_path, text)), ir.Model)
    assert "fancy_param" in caplog.text


@pytest.mark.parametrize(
    ("rules", "runs"),
    [
        ("", True),
        ("include { phase: TEST }", True),
        ("include { phase: TRAIN }", False),
        ("include { phase: TRAIN } include { phase: TEST }", True),
        ("exclude { phase: TEST }", False),
        ("exclude { phase: TRAIN }", True),
        ("include { min_level: 3 }", True),
        ("include { min_level: 4 }", False),
        ("include { max_level: 2 }", False),
        ("include { stage: 'deploy' }", True),
        ("include { stage: 'deploy' stage: 'other' }", False),
        ("include { not_stage: 'deploy' }", False),
        ("include { not_stage: 'other' }", True),
    ],
)
def test_rules_say_which_layers_run(tmp_path: Path, rules: str, runs: bool) -> None:
    text = f'state {{ level: 3 stage: "deploy" }} layer {{ name: "r" type: "ReLU" bottom: "d" top: "r" {rules} }}'
    (tmp_path / "n.prototxt").write_text(text)
    assert [layer.name for layer in read_prototxt(tmp_path / "n.prototxt").layers] == ["r"] * runs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('input: "a" input_dim: 1 input_dim: 3 input_dim: 4 input_dim: 5', {"a": (1, 3, 4, 5)}),
        ('input: "a" input_shape { dim: 2 dim: 7 }', {"a": (2, 7)}),
        (
            'input: "a" input: "b" input_dim: 1 input_dim: 2 input_dim: 3 input_dim: 4 '
            "input_dim: 5 input_dim: 6 input_dim: 7 input_dim: 8",
            {"a": (1, 2, 3, 4), "b": (5, 6, 7, 8)},
        ),
        ('layer { type: "Input" top: "a" top: "b" input_param { shape { dim: 2 } } }', {"a": (2,), "b": (2,)}),
        ('layer { type: "Data" top: "a" top: "label" }', {"a": None}),
    ],
)
def test_inputs(tmp_path: Path, text: str, expected: dict[str, tuple[int, ...] | None]) -> None:
    (tmp_path / "n.prototxt").write_text(text)
    network = read_prototxt(tmp_path / "n.prototxt")
    assert (network.inputs, network.layers, network.name) == (expected, (), "n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('input: "a" input_dim: 1 input_dim: 3', "1 input are declared and 1 shapes"),
        ('input: "a" input: "b" input_shape { dim: 1 }', "2 input are declared and 1 shapes"),
        ('layer { name: "i" type: "Input" top: "a" }', "1 tops and 0 shapes"),
        (
            'layer { name: "i" type: "Input" top: "a" input_param { shape { } } }',
            "a tensor needs one dimension or more",
        ),
        (
            'layer { name: "i" type: "Input" top: "a" input_param { shape { dim: 0 } } }',
            "must have positive dimensions",
        ),
        ('layer { name: "i" type: "Data" }', "it needs a top"),
    ],
)
def test_inputs_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "n.prototxt").write_text(text)
    with pytest.raises(ModelError, match=message):
        read_prototxt(tmp_path / "n.prototxt")


@pytest.mark.parametrize(
    ("older", "newer"),
    [("INNER_PRODUCT", "InnerProduct"), ("RELU", "ReLU"), ("TANH", "TanH"), ("LRN", "LRN"), ("CONCAT", "Concat"),
     ("SOFTMAX_LOSS", "SoftmaxWithLoss"), ("HDF5_DATA", "HDF5Data")],
)  # fmt: skip
def test_older_types(tmp_path: Path, older: str, newer: str) -> None:
    (tmp_path / "n.prototxt").write_text(f'layers {{ name: "l" type: {older} bottom: "a" top: "b" }}')
    (layer,) = read_prototxt(tmp_path / "n.prototxt").layers
    assert str(layer) == f"layer name=l type={newer}"


def test_shapes_that_caffe_can_hold() -> None:
    assert checked_shape([(1 << 31) - 1], "w") == ((1 << 31) - 1,)
    assert checked_shape([1] * 32, "w") == (1,) * 32
    assert checked_shape([], "w") == ()
    for dims in ([1 << 31], [1 << 16, 1 << 15], [2, 0], [-1], [1] * 33):
        with pytest.raises(ModelError, match=r"^w: "):
            checked_shape(dims, "w")
    with pytest.raises(ModelError, match="w: a tensor needs one dimension or more"):
        tensor_shape([], "w")


def test_blobs_fill_their_shapes(tmp_path: Path) -> None:
    weights = message_class("NetParameter")()
    blob = weights.layer.add(name="c").blobs.add()
    blob.shape.dim.extend([2, 2])
    blob.double_data.extend([1.0, 2.0, 3.0, 4.0])
    weights.layer.add(name="empty")
    path = tmp_path / "n.caffemodel"
    path.write_bytes(weights.SerializeToString())
    found = read_blobs(path)
    assert {name: [array.tolist() for array in arrays] for name, arrays in found.items()} == {"c": [[[1, 2], [3, 4]]]}
    assert found["c"][0].dtype == np.float32
    blob.double_data.append(5.0)
    path.write_bytes(weights.SerializeToString())
    with pytest.raises(ModelError, match=r"n.caffemodel: layer 'c': a blob of shape 2x2 has 5 values"):
        read_blobs(path)


def test_files_beyond_the_limit_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.frontend.caffe.reader.MAX_PROTOTXT_BYTES", 10)
    (tmp_path / "n.prototxt").write_text("# " + "x" * 9)
    with pytest.raises(ModelError, match="11 bytes are too many for a prototxt; at most 10 are allowed"):
        read_prototxt(tmp_path / "n.prototxt")
