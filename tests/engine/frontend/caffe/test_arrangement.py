"""Layers that move data, against Caffe's definition of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelError, UnsupportedError
from engine.frontend.caffe import arrangement
from tests.engine.frontend.caffe.networks import (
    SAME,
    Array,
    Converter,
    X,
    check,
    converted,
    forward,
    kinds,
    noise,
)


def test_arg_max_of_whole_samples_with_values(tmp_path: Path) -> None:
    (y,) = forward(tmp_path, 'type: "ArgMax" argmax_param { out_max_val: true top_k: 2 }', [X])
    flat = X.reshape(2, -1)
    order = np.argsort(-flat, axis=1)[:, :2]
    check(y, np.stack([order, np.take_along_axis(flat, order, 1)], axis=1).astype(np.float32))


def test_of_equal_values_the_last_is_the_largest(tmp_path: Path) -> None:
    (y,) = forward(tmp_path, 'type: "ArgMax" argmax_param { axis: 1 }', [np.zeros((1, 5, 2, 2), np.float32)])
    assert (y == 4).all()


def test_crop(tmp_path: Path) -> None:
    (y,) = forward(tmp_path, 'type: "Crop" crop_param { offset: 1 offset: 2 }', [X, noise(2, 4, 5, 6)])
    check(y, X[:, :, 1:6, 2:8])
    (y,) = forward(tmp_path, 'type: "Crop" crop_param { axis: 3 offset: 2 }', [X, noise(2, 4, 1, 4)])
    check(y, X[..., 2:6])


def test_slice_and_split(tmp_path: Path) -> None:
    first, second = forward(tmp_path, 'type: "Slice"', [X], tops=["a", "b"])
    check(np.concatenate([first, second], 1), X)
    assert first.shape == second.shape
    parts = forward(tmp_path, 'type: "Slice" slice_param { axis: 2 slice_point: 1 slice_point: 5 }', [X], tops="abc")
    for found, expected in zip(parts, np.split(X, [1, 5], axis=2), strict=True):
        check(found, expected)
    for found in forward(tmp_path, 'type: "Split"', [X], tops=["a", "b"]):
        check(found, X)


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ("zoom_factor: 2", (13, 17)),
        ("zoom_factor: 1", (7, 9)),
        ("shrink_factor: 2", (4, 5)),
        ("height: 3 width: 20", (3, 20)),
        ("zoom_factor: 2 pad_beg: -1 pad_end: -1", (9, 13)),
    ],
)
def test_interp_aligns_corners(tmp_path: Path, fields: str, size: tuple[int, int]) -> None:
    (y,) = forward(tmp_path, f'type: "Interp" interp_param {{ {fields} }}', [X])
    x = (X[:, :, 1:-1, 1:-1] if "pad" in fields else X).astype(np.float64)
    for axis, length in zip((2, 3), size, strict=True):
        place = np.linspace(0, x.shape[axis] - 1, length)
        low = np.minimum(place.astype(int), x.shape[axis] - 2)
        part = (place - low).reshape([-1 if index == axis else 1 for index in range(4)])
        x = x.take(low, axis) * (1 - part) + x.take(low + 1, axis) * part
    check(y, x)


def test_interp_takes_the_size_of_its_second_bottom(tmp_path: Path) -> None:
    (y,) = forward(tmp_path, 'type: "Interp"', [X, noise(1, 1, 13, 17)])
    (factor,) = forward(tmp_path, 'type: "Interp" interp_param { zoom_factor: 2 }', [X])
    check(y, factor)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ('type: "Dropout" dropout_param { dropout_ratio: 0.5 }', X),
        ('type: "Flatten"', X.reshape(2, -1)),
        ('type: "Flatten" flatten_param { axis: 1 end_axis: 2 }', X.reshape(2, 28, 9)),
        ('type: "Reshape" reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 9 } }', X.reshape(2, 2, 14, 9)),
        ('type: "Reshape" reshape_param { shape { dim: 3 dim: 3 } axis: 3 }', X.reshape(2, 4, 7, 3, 3)),
        ('type: "Reshape" reshape_param { shape { dim: 1 dim: 1 } axis: -1 }', X.reshape(2, 4, 7, 9, 1, 1)),
        ('type: "Permute" permute_param { order: 0 order: 2 order: 3 order: 1 }', X.transpose(0, 2, 3, 1)),
        ('type: "Permute" permute_param { order: 2 }', X.transpose(2, 0, 1, 3)),
        ('type: "Upsample" upsample_param { scale: 2 }', X.repeat(2, 2).repeat(2, 3)),
        ('type: "ArgMax" argmax_param { axis: 1 }', X.argmax(1)[:, None]),
        ('type: "ArgMax" argmax_param { axis: 1 out_max_val: true }', X.max(1, keepdims=True)),
        ('type: "ArgMax" argmax_param { top_k: 3 }', np.argsort(-X.reshape(2, 1, -1), axis=2)[:, :, :3]),
    ],
)
def test_layers_of_one_bottom(tmp_path: Path, layer: str, expected: Array) -> None:
    (y,) = forward(tmp_path, layer, [X])
    check(y, expected)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ('type: "Concat"', np.concatenate([X, SAME], 1)),
        ('type: "Concat" concat_param { axis: 2 }', np.concatenate([X, SAME], 2)),
        ('type: "Concat" concat_param { concat_dim: 0 }', np.concatenate([X, SAME], 0)),
    ],
)
def test_concat(tmp_path: Path, layer: str, expected: Array) -> None:
    (y,) = forward(tmp_path, layer, [X, SAME])
    check(y, expected)


@pytest.mark.parametrize(
    ("converter", "fields", "shapes", "tops", "message"),
    [
        (arrangement.concat, "", [(1, 2, 3), (1, 2, 4)], 1, "may differ in axis 1 only"),
        (arrangement.slice_, "", [(1, 5)], 2, "5 elements of axis 1 do not split into 2 tops"),
        (arrangement.slice_, "slice_param { slice_point: 3 slice_point: 3 }", [(1, 5)], 3, "do not cut"),
        (arrangement.slice_, "slice_param { slice_point: 3 }", [(1, 5)], 3, "do not cut"),
        (arrangement.crop, "crop_param { offset: 2 }", [(1, 1, 5, 5), (1, 1, 4, 3)], 1, "is too small for a crop"),
        (
            arrangement.crop,
            "crop_param { axis: 1 offset: 1 offset: 1 }",
            [(1, 1, 5, 5), (1, 1, 4, 3)],
            1,
            "cannot be cropped",
        ),
        (arrangement.flatten, "flatten_param { axis: 2 end_axis: 1 }", [(1, 2, 3)], 1, "axis 2 is behind end_axis 1"),
        (arrangement.reshape, "reshape_param { shape { dim: -1 dim: -1 } }", [(1, 2, 3)], 1, "may have one -1"),
        (
            arrangement.reshape,
            "reshape_param { shape { dim: 0 dim: 0 dim: 0 dim: 0 } }",
            [(1, 2, 3)],
            1,
            "copies more dimensions",
        ),
        (arrangement.reshape, "reshape_param { shape { dim: 1 } axis: 5 }", [(1, 2, 3)], 1, "do not fit"),
        (arrangement.reshape, "reshape_param { shape { dim: 5 } }", [(1, 2, 3)], 1, "numbers of elements differ"),
        (
            arrangement.permute,
            "permute_param { order: 1 order: 1 }",
            [(1, 2, 3)],
            1,
            "must name different axes below 3",
        ),
        (arrangement.permute, "permute_param { order: 3 }", [(1, 2, 3)], 1, "must name different axes below 3"),
        (arrangement.interp, "", [(1, 2, 3, 3)], 1, "it needs height and width"),
        (arrangement.interp, "interp_param { zoom_factor: 0 }", [(1, 2, 3, 3)], 1, "must be positive"),
        (arrangement.interp, "interp_param { zoom_factor: 2 pad_beg: 1 }", [(1, 2, 3, 3)], 1, "must not be positive"),
        (arrangement.upsample, "", [(1, 2, 3, 3), (1, 2, 3, 3)], 1, "a mask as second bottom"),
        (
            arrangement.upsample,
            "upsample_param { pad_out_h: true }",
            [(1, 2, 3, 3)],
            1,
            "only scale, or scale_h and scale_w",
        ),
        (arrangement.arg_max, "argmax_param { top_k: 4 axis: 1 }", [(1, 3, 9)], 1, r"top_k 4 must be 1\.\.3"),
    ],
)
def test_settings_that_are_refused(
    converter: Converter, fields: str, shapes: list[tuple[int, ...]], tops: int, message: str
) -> None:
    with pytest.raises((ModelError, UnsupportedError), match=message):
        converted(converter, fields, *shapes, tops=tops)


@pytest.mark.parametrize(
    ("converter", "fields", "expected", "shape"),
    [
        (arrangement.flatten, "", ["Flatten"], (2, 12)),
        (arrangement.flatten, "flatten_param { axis: 2 }", ["Reshape"], (2, 3, 4)),
        (arrangement.arg_max, "argmax_param { axis: 1 }", ["ArgMax", "ReduceMax", "Cast"], (2, 1, 2, 2)),
        (arrangement.arg_max, "argmax_param { axis: 1 top_k: 2 }", ["TopK", "Cast"], (2, 2, 2, 2)),
        (arrangement.upsample, "upsample_param { scale_h: 3 scale: 2 }", ["Resize"], (2, 3, 6, 4)),
        (arrangement.interp, "interp_param { shrink_factor: 2 zoom_factor: 3 }", ["Resize"], (2, 3, 1, 1)),
    ],
)
def test_the_nodes_of_a_layer(converter: Converter, fields: str, expected: list[str], shape: tuple[int, ...]) -> None:
    graph, shapes = converted(converter, fields, (2, 3, 2, 2))
    assert (kinds(graph), shapes) == (expected, [shape])


def test_repeated_pixels_are_placed_by_whole_factors() -> None:
    graph, _ = converted(arrangement.upsample, "", (1, 2, 3, 4))
    (node,) = graph.nodes
    assert node.inputs[2].const_value.numpy().tolist() == [1.0, 1.0, 2.0, 2.0]
    assert {name: node.attributes[name].value for name in node.attributes} == {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
