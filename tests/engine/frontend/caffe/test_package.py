"""Whole networks: MobileNet v1's published layout, older files, phases, wrong files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ConfigError, ModelError, UnsupportedError
from engine.frontend.caffe import input_names, load_caffe
from tests.engine.frontend.caffe.networks import Array, convolve, run, written

SEPARABLE = [
    ("conv2_1", 32, 1), ("conv2_2", 64, 2), ("conv3_1", 128, 1), ("conv3_2", 128, 2), ("conv4_1", 256, 1),
    ("conv4_2", 256, 2), *((f"conv5_{index}", 512, 1) for index in range(1, 6)), ("conv5_6", 512, 2),
    ("conv6", 1024, 1),
]  # fmt: skip
"""Blocks of MobileNet v1: name, input channels, stride of the depthwise convolution."""
DOUBLING = ("conv2_1", "conv2_2", "conv3_2", "conv4_2", "conv5_6")


def convolutions() -> Iterator[tuple[str, int, int, int, int, int]]:
    """Name, input and output channels, kernel, stride, groups, quarter the published width."""
    yield "conv1", 3, 8, 3, 2, 1
    for name, channels, stride in SEPARABLE:
        inner = channels // 4
        yield f"{name}/dw", inner, inner, 3, stride, inner
        yield f"{name}/sep", inner, inner * (2 if name in DOUBLING else 1), 1, 1, 1


def mobilenet() -> tuple[str, dict[str, list[Array]]]:
    """Prototxt of the 28 weight layers, with their batch norms and scales, and random weights."""
    rng = np.random.default_rng(0)
    text = 'name: "MOBILENET"\ninput: "data"\ninput_dim: 1 input_dim: 3 input_dim: 64 input_dim: 64\n'
    blobs: dict[str, list[Array]] = {}
    bottom = "data"
    for name, inputs, outputs, kernel, stride, group in convolutions():
        text += f"""
layer {{ name: "{name}" type: "Convolution" bottom: "{bottom}" top: "{name}" param {{ lr_mult: 1.0 decay_mult: 1.0 }}
  convolution_param {{ num_output: {outputs} bias_term: false pad: {kernel // 2} kernel_size: {kernel} group: {group}
    engine: CAFFE stride: {stride} weight_filler {{ type: "msra" }} }} }}
layer {{ name: "{name}/bn" type: "BatchNorm" bottom: "{name}" top: "{name}" param {{ lr_mult: 0 }}
  batch_norm_param {{ use_global_stats: true eps: 1e-5 }} }}
layer {{ name: "{name}/scale" type: "Scale" bottom: "{name}" top: "{name}"
  scale_param {{ filler {{ value: 1 }} bias_term: true bias_filler {{ value: 0 }} }} }}
layer {{ name: "relu_{name}" type: "ReLU" bottom: "{name}" top: "{name}" }}"""
        fan = inputs // group * kernel * kernel
        blobs[name] = [rng.normal(0, fan**-0.5, (outputs, inputs // group, kernel, kernel))]
        blobs[f"{name}/bn"] = [rng.normal(0, 3, outputs), rng.uniform(50, 150, outputs), np.array([100.0])]
        blobs[f"{name}/scale"] = [rng.uniform(0.8, 1.2, outputs), rng.normal(0, 0.2, outputs)]
        bottom = name
    text += f"""
layer {{ name: "pool6" type: "Pooling" bottom: "{bottom}" top: "pool6"
  pooling_param {{ pool: AVE global_pooling: true }} }}
layer {{ name: "fc7" type: "Convolution" bottom: "pool6" top: "fc7"
  convolution_param {{ num_output: 10 kernel_size: 1 }} }}
layer {{ name: "prob" type: "Softmax" bottom: "fc7" top: "prob" }}
"""
    blobs["fc7"] = [rng.normal(0, 0.1, (10, 256, 1, 1)), rng.normal(0, 0.1, 10)]
    return text, {name: [array.astype(np.float32) for array in arrays] for name, arrays in blobs.items()}


def by_definition(x: Array, blobs: dict[str, list[Array]]) -> Array:
    """MobileNet's forward in float64."""
    for name, _, _, kernel, stride, group in convolutions():
        x = convolve(x, blobs[name][0], None, stride, kernel // 2, group)
        mean, variance, factor = (array.astype(np.float64) for array in blobs[f"{name}/bn"])
        gain, shift = blobs[f"{name}/scale"]
        x = (x - (mean / factor)[:, None, None]) / np.sqrt(variance / factor + np.float32(1e-5))[:, None, None]
        x = np.maximum(x * gain[:, None, None] + shift[:, None, None], 0)
    x = convolve(x.mean((2, 3), keepdims=True), *blobs["fc7"], 1, 0)
    x = np.exp(x - x.max(1, keepdims=True))
    return x / x.sum(1, keepdims=True)


def test_mobilenet(tmp_path: Path) -> None:
    text, blobs = mobilenet()
    paths = written(tmp_path, text, blobs)
    model = load_caffe(*paths)
    image = np.random.default_rng(1).normal(size=(1, 3, 64, 64)).astype(np.float32)
    (y,) = run(model, image)
    np.testing.assert_allclose(y, by_definition(image, blobs), rtol=1e-3, atol=1e-6)
    assert input_names(paths[0]) == ("data",)
    assert [value.name for value in model.graph.outputs] == ["prob"]
    assert sum(node.op_type == "Conv" for node in model.graph) == 28
    assert {"conv1", "conv5_6/sep", "fc7", "prob"} <= {str(node.name) for node in model.graph}


DATA = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 4 } } }\n'


def test_layers_in_place_on_the_input_and_several_outputs(tmp_path: Path) -> None:
    text = (
        DATA
        + """
    layer { name: "p" type: "Power" bottom: "data" top: "data" power_param { scale: 2 } }
    layer { name: "a" type: "ReLU" bottom: "data" top: "a" }
    layer { name: "b" type: "Sigmoid" bottom: "data" top: "b" }
    layer { name: "b6" type: "ReLU6" bottom: "b" top: "b" }
    """
    )
    model = load_caffe(*written(tmp_path, text))
    assert [value.name for value in model.graph.inputs] == ["data"]
    assert [value.name for value in model.graph.outputs] == ["a", "b"]
    x = np.random.default_rng(0).normal(size=(1, 2, 4, 4)).astype(np.float32)
    np.testing.assert_allclose(run(model, x)[0], np.maximum(2 * x, 0), rtol=1e-6)


@pytest.mark.parametrize(
    ("layer", "error", "message"),
    [
        ('type: "Accuracy"', UnsupportedError, "Not support layer name=l type=Accuracy"),
        ('type: "Python" python_param { module: "os" }', UnsupportedError, "Not support layer name=l type=Python"),
        ('type: "Convolution" convolution_param { num_output: 2 kernel_size: 3 }', ModelError, "blob 0 is missing"),
        ('type: "Convolution" convolution_param { kernel_size: 3 }', ModelError, "num_output must be positive"),
        (
            'type: "Convolution" convolution_param { num_output: 3 kernel_size: 3 group: 2 }',
            ModelError,
            "group 2 must divide 2 input and 3 output channels",
        ),
        ('type: "Pooling" pooling_param { pool: STOCHASTIC kernel_size: 2 }', UnsupportedError, "stochastic"),
        ('type: "Pooling" pooling_param { kernel_size: 9 }', UnsupportedError, "lies outside the map"),
        ('type: "Reshape" reshape_param { shape { dim: 7 } }', ModelError, "numbers of elements differ"),
        ('type: "Softmax" softmax_param { axis: 4 }', ModelError, "axis 4 is out of range for 4 dimensions"),
        ('type: "Eltwise"', ModelError, "1 bottoms, needed are 2 or more"),
        ('type: "BatchNorm" batch_norm_param { use_global_stats: false }', UnsupportedError, "use_global_stats"),
        ('type: "Upsample" upsample_param { scale: 100000 }', ModelError, "at most 2147483647 elements"),
        ('type: "ReLU" bottom: "nowhere"', ModelError, "'nowhere' is the top of no layer before it"),
    ],
)
def test_wrong_layers(tmp_path: Path, layer: str, error: type[Exception], message: str) -> None:
    text = DATA + f'layer {{ name: "l" bottom: "data" top: "y" {layer} }}'
    with pytest.raises(error, match=r"net\.prototxt: ") as caught:
        load_caffe(*written(tmp_path, text))
    assert message in str(caught.value)


def test_wrong_files(tmp_path: Path) -> None:
    prototxt, caffemodel = written(tmp_path, DATA + 'layer { name: "r" type: "ReLU" bottom: "data" top: "r" }')
    with pytest.raises(ModelError, match="the prototxt cannot be read"):
        load_caffe(tmp_path / "absent", caffemodel)
    with pytest.raises(ModelError, match="the caffemodel cannot be read"):
        load_caffe(prototxt, tmp_path / "absent")
    with pytest.raises(ConfigError, match="did you mean 'data'"):
        load_caffe(prototxt, caffemodel, {"date": (1, 2, 4, 4)})
    caffemodel.write_bytes(b"\xff" * 20)
    with pytest.raises(ModelError, match=r"Error parsing message with type 'caffe\.NetParameter'"):
        load_caffe(prototxt, caffemodel)
    for text in ("layer {", "layer {" * 5000, "\x00", 'input: "a"'):
        prototxt.write_text(text)
        with pytest.raises(ModelError, match=r"net\.prototxt"):
            load_caffe(prototxt, caffemodel)
