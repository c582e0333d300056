"""Type and layout of inputs that are pixels."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.chips import load_chip
from engine.config import InputSpec
from engine.frontend import preprocess
from engine.quantize.inputs import data_format, pixel_input
from tests.engine.quantize.quantized import quantized, types


@pytest.mark.parametrize(("type_rt", "shape"), [("nv12", (1, 8, 8, 3)), ("rgb", (1, 3, 8, 8))])
def test_image_input_is_int8_pixels_in_the_layout_of_its_type(type_rt: str, shape: tuple[int, ...]) -> None:
    spec = InputSpec(name="x", type_train="rgb", type_rt=type_rt)
    model = quantized(preprocess.insert(image_network((1, 3, 8, 8)), [spec]))
    (pixels,) = model.graph.inputs
    assert pixels.dtype == ir.DataType.INT8
    assert pixels.shape == shape


def test_image_inputs_of_bernoulli2_are_nhwc() -> None:
    spec = InputSpec(name="x", type_train="rgb", type_rt="bgr")
    model = quantized(preprocess.insert(image_network((1, 3, 8, 8)), [spec]), "bernoulli2")
    assert model.graph.inputs[0].shape == (1, 8, 8, 3)
    assert types(model)[0] == "HzSQuantizedPreprocess"


@pytest.mark.parametrize(
    ("types", "channels", "layout", "march", "expected"),
    [
        ({"type_train": "rgb", "type_rt": "bgr"}, 3, "NCHW", "bayes-e", ("NCHW", (1, 3, 8, 6))),
        ({"type_train": "rgb", "type_rt": "nv12"}, 3, "NCHW", "bayes-e", ("NHWC", (1, 8, 6, 3))),
        ({"type_train": "gray", "type_rt": "gray"}, 1, "NCHW", "bayes", ("NHWC", (1, 8, 6, 1))),
        ({"type_train": "rgb", "type_rt": "bgr"}, 3, "NCHW", "bernoulli2", ("NHWC", (1, 8, 6, 3))),
        ({"type_train": "rgb", "type_rt": "bgr"}, 3, "NHWC", "bayes", ("NHWC", (1, 8, 6, 3))),
    ],
)
def test_layout_of_pixels(
    types: dict[str, str], channels: int, layout: str, march: str, expected: tuple[str, tuple[int, ...]]
) -> None:
    """The network's own layout but for nv12, one channel and bernoulli2; what is NHWC already is not turned again."""
    shape = (1, channels, 8, 6) if layout == "NCHW" else (1, 8, 6, channels)
    source = preprocess.insert(image_network(shape), [InputSpec(name="x", layout_train=layout, **types)])
    assert data_format(list(source.graph)) == layout
    found = pixel_input(source.graph.inputs[0], source, load_chip(march))
    assert found is not None
    assert (found.layout, found.value.shape) == (expected[0], ir.Shape(expected[1]))
    assert (found.value.name, found.value.dtype) == ("x", ir.DataType.INT8)


def test_what_no_preprocessing_reads_are_no_pixels() -> None:
    source = image_network((1, 3, 8, 8))
    assert pixel_input(source.graph.inputs[0], source, load_chip("bernoulli2")) is None


def image_network(shape: tuple[int, ...]) -> ir.Model:
    """One convolution of an image."""
    rng = np.random.default_rng(0)
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(shape))
    weight = ir.tensor(rng.normal(size=(4, shape[1], 3, 3)).astype(np.float32))
    constant = ir.Value(name="w", type=ir.TensorType(weight.dtype), shape=weight.shape, const_value=weight)
    y = ir.Value(name="y", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape((1, 4, 6, 6)))
    node = ir.node("Conv", [x, constant], {"kernel_shape": [3, 3]}, outputs=[y], name="Conv_0")
    graph = ir.Graph([x], [y], nodes=[node], initializers=[constant], opset_imports={"": 11}, name="g")
    return ir.Model(graph, ir_version=8)
