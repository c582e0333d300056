"""Caffe networks for tests: text and weights written through the schema, and an independent forward in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
from google.protobuf import text_format
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from engine.frontend.caffe import load_caffe
from engine.frontend.caffe.graph import Graph, dims
from engine.frontend.caffe.reader import CaffeLayer
from engine.frontend.caffe.schema import message_class

Array = NDArray[Any]


def written(
    folder: Path, text: str, blobs: Mapping[str, Sequence[Array]] | None = None, legacy: bool = False
) -> tuple[Path, Path]:
    """``net.prototxt`` and ``net.caffemodel``; ``legacy``: older ``layers`` and four-dimensional blobs."""
    weights = message_class("NetParameter")(name="net")
    for name, arrays in (blobs or {}).items():
        layer = weights.layers.add(name=name) if legacy else weights.layer.add(name=name)
        for array in arrays:
            blob = layer.blobs.add()
            blob.data.extend(np.asarray(array, np.float32).ravel().tolist())
            if legacy:
                four = (1,) * (4 - array.ndim) + array.shape
                blob.num, blob.channels, blob.height, blob.width = four
            else:
                blob.shape.dim.extend(array.shape)
    prototxt, caffemodel = folder / "net.prototxt", folder / "net.caffemodel"
    prototxt.write_text(text)
    caffemodel.write_bytes(weights.SerializeToString())
    return prototxt, caffemodel


def run(model: ir.Model, *inputs: Array) -> list[Array]:
    """Outputs of ``model`` in onnxruntime."""
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {item.name: array for item, array in zip(session.get_inputs(), inputs, strict=True)}
    return list(session.run(None, feeds))


def forward(
    folder: Path, layer: str, inputs: Sequence[Array], blobs: Sequence[Array] = (), tops: Sequence[str] = ("y",)
) -> list[Array]:
    """Outputs of one layer ``l`` of fields ``layer``, fed with ``inputs``."""
    names = [f"x{index}" for index in range(len(inputs))]
    text = "".join(
        f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {_dims(array)} }} }} }}\n'
        for name, array in zip(names, inputs, strict=True)
    )
    ends = " ".join([*(f'bottom: "{name}"' for name in names), *(f'top: "{top}"' for top in tops)])
    model = load_caffe(*written(folder, f'{text}layer {{ name: "l" {ends} {layer} }}', {"l": blobs}))
    assert [value.name for value in model.graph.outputs] == list(tops)
    return run(model, *inputs)


def _dims(array: Array) -> str:
    return " ".join(f"dim: {size}" for size in array.shape)


def convolve(
    x: Array, weight: Array, bias: Array | None, stride: int, pad: int, group: int = 1, dilation: int = 1
) -> Array:
    """2-D convolution by definition, float64."""
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    extents = [dilation * (size - 1) + 1 for size in weight.shape[2:]]
    windows = sliding_window_view(padded, extents, axis=(2, 3))[:, :, ::stride, ::stride, ::dilation, ::dilation]
    parts = zip(np.split(windows, group, axis=1), np.split(weight, group), strict=True)
    y = np.concatenate([np.einsum("nchwij,ocij->nohw", part, w) for part, w in parts], axis=1)
    return y if bias is None else y + bias[:, None, None]


def pool(x: Array, kernel: int, stride: int, pad: int, average: bool, ceil: bool = True) -> Array:
    """Caffe's pooling loops."""
    count, channels, *sides = x.shape
    sizes = []
    for side in sides:
        steps = (side + 2 * pad - kernel) / stride
        size = int(np.ceil(steps) if ceil else np.floor(steps)) + 1
        sizes.append(size - (pad > 0 and (size - 1) * stride >= side + pad))
    y = np.zeros((count, channels, *sizes))
    for row in range(sizes[0]):
        for column in range(sizes[1]):
            top, left = row * stride - pad, column * stride - pad
            bottom, right = min(top + kernel, sides[0] + pad), min(left + kernel, sides[1] + pad)
            area = (bottom - top) * (right - left)
            window = x[:, :, max(top, 0) : min(bottom, sides[0]), max(left, 0) : min(right, sides[1])]
            y[:, :, row, column] = window.sum((2, 3)) / area if average else window.max((2, 3))
    return y


Converter = Callable[[Graph, CaffeLayer, Sequence[ir.Value]], list[ir.Value]]


def layer_of(fields: str = "", tops: int = 1, blobs: Sequence[Array] = ()) -> CaffeLayer:
    """A layer ``l`` of the given fields."""
    message = text_format.Parse(fields, message_class("LayerParameter")())
    names = tuple(f"t{index}" for index in range(tops))
    return CaffeLayer("l", "Kind", (), names, message, tuple(np.asarray(array, np.float32) for array in blobs))


def converted(
    converter: Converter, fields: str, *shapes: Sequence[int], tops: int = 1, blobs: Sequence[Array] = ()
) -> tuple[Graph, list[tuple[int, ...]]]:
    """The graph that ``converter`` makes of one layer, and the shapes of its results."""
    graph = Graph([])
    kind = ir.TensorType(ir.DataType.FLOAT)
    inputs = [ir.Value(name=f"x{index}", type=kind, shape=ir.Shape(shape)) for index, shape in enumerate(shapes)]
    results = converter(graph, layer_of(fields, tops, blobs), inputs)
    return graph, [dims(value) for value in results]


def kinds(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes]


def noise(*shape: int) -> Array:
    """Normal values of a seed that the shape gives."""
    return np.random.default_rng([3, *shape]).normal(size=shape).astype(np.float32)


def check(found: Array, expected: Array) -> None:
    """Equal in shape, and in value up to float rounding."""
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


X = noise(2, 4, 7, 9)
SAME = np.random.default_rng(4).normal(size=X.shape).astype(np.float32)
