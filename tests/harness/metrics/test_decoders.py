"""Decoders against plain restatements, box by box, of the published post-processing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.errors import ConfigError, InferenceError
from harness.metrics import open_metric
from harness.metrics.decoders import STRIDES, BoxDecoder, corners, decode_boxes, decoder_of, logistic

SIZE = (64, 96)
CLASSES = 3
CELLS = 8 * 12 + 4 * 6 + 2 * 3


def made(*shape: int, seed: int = 0, probabilities: bool = False) -> np.ndarray:
    random = np.random.default_rng(seed)
    values = random.random(shape) if probabilities else random.normal(size=shape)
    return values.astype(np.float32)


def around(x: float, y: float, width: float, height: float) -> list[float]:
    return [x - width / 2, y - height / 2, x + width / 2, y + height / 2]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_yolov8_rows() -> None:
    output = made(2, 4 + CLASSES, 50)
    boxes, scores = decode_boxes(BoxDecoder.YOLOV8, [output], CLASSES, SIZE)
    np.testing.assert_allclose(boxes[1, 7], around(*output[1, :4, 7]), rtol=1e-5)
    np.testing.assert_array_equal(scores[1, 7], output[1, 4:, 7])


def test_yolov5_rows() -> None:
    output = made(2, 50, 5 + CLASSES)
    boxes, scores = decode_boxes(BoxDecoder.YOLOV5, [output], CLASSES, SIZE)
    np.testing.assert_allclose(boxes[1, 7], around(*output[1, 7, :4]), rtol=1e-5)
    np.testing.assert_allclose(scores[1, 7], output[1, 7, 4] * output[1, 7, 5:])


def test_yolox_as_its_demo_decodes() -> None:
    """YOLOX/utils/demo_utils.py, demo_postprocess: grids of strides 8, 16, 32, row by row."""
    output = made(1, CELLS, 5 + CLASSES)
    boxes, scores = decode_boxes(BoxDecoder.YOLOX, [output], CLASSES, SIZE)
    index = 0
    for stride in (8, 16, 32):
        for row in range(SIZE[0] // stride):
            for column in range(SIZE[1] // stride):
                x, y, w, h, objectness, *classes = output[0, index].astype(float)
                wanted = around((x + column) * stride, (y + row) * stride, math.exp(w) * stride, math.exp(h) * stride)
                np.testing.assert_allclose(boxes[0, index], wanted, rtol=1e-4, atol=1e-3)
                np.testing.assert_allclose(scores[0, index], objectness * np.array(classes), rtol=1e-5)
                index += 1
    assert index == CELLS == boxes.shape[1]


def test_yolov8_heads_as_ultralytics_decodes() -> None:
    """ultralytics/nn/modules/head.py and block.py (DFL), utils/tal.py (dist2bbox): anchor points at cell + 0.5."""
    heads = [made(1, 64 + CLASSES, SIZE[0] // s, SIZE[1] // s, seed=s) for s in (8, 16, 32)]
    boxes, scores = decode_boxes(BoxDecoder.YOLOV8_HEADS, heads, CLASSES, SIZE)
    index = 0
    for head, stride in zip(heads, (8, 16, 32), strict=True):
        for row in range(head.shape[2]):
            for column in range(head.shape[3]):
                values = head[0, :, row, column].astype(float)
                sides = []
                for side in range(4):
                    weights = [math.exp(v) for v in values[16 * side : 16 * side + 16]]
                    sides.append(sum(i * w for i, w in enumerate(weights)) / sum(weights))
                x, y = column + 0.5, row + 0.5
                wanted = [x - sides[0], y - sides[1], x + sides[2], y + sides[3]]
                np.testing.assert_allclose(boxes[0, index], np.array(wanted) * stride, rtol=1e-4, atol=1e-3)
                np.testing.assert_allclose(scores[0, index], [sigmoid(v) for v in values[64:]], rtol=1e-4)
                index += 1
    assert index == boxes.shape[1]
    split = [part for head in heads for part in (head[:, :64], head[:, 64:])]
    for found, wanted in zip(decode_boxes(BoxDecoder.YOLOV8_SPLIT, split, CLASSES, SIZE), (boxes, scores), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_yolo26_maps_hold_distances_themselves() -> None:
    """ultralytics/nn/modules/head.py with ``reg_max`` 1: no distribution; ``dist2bbox`` from the middle of the cell."""
    shapes = [(depth, SIZE[0] // s, SIZE[1] // s) for s in (8, 16, 32) for depth in (4, CLASSES)]
    maps = [made(1, *shape, seed=index) for index, shape in enumerate(shapes)]
    boxes, scores = decode_boxes(BoxDecoder.YOLO26_SPLIT, maps, CLASSES, SIZE)
    row, column = 1, 2
    left, top, right, bottom = maps[0][0, :, row, column]
    place = row * (SIZE[1] // 8) + column
    wanted = np.array([column + 0.5 - left, row + 0.5 - top, column + 0.5 + right, row + 0.5 + bottom]) * 8
    np.testing.assert_allclose(boxes[0, place], wanted, rtol=1e-5)
    np.testing.assert_allclose(scores[0, place], [sigmoid(v) for v in maps[1][0, :, row, column]], rtol=1e-4)
    last = maps[4][0, :, -1, -1]
    ends = [SIZE[1] / 32 - 0.5 - last[0], SIZE[0] / 32 - 0.5 - last[1]]
    np.testing.assert_allclose(boxes[0, -1, :2], np.array(ends) * 32, rtol=1e-5)


def test_end_to_end_rows() -> None:
    output = np.array([[[1, 2, 30, 40, 0.9, 2], [0, 0, 0, 0, 0.0, 0]]], np.float32)
    boxes, scores = decode_boxes(BoxDecoder.END_TO_END, [output], CLASSES, SIZE)
    np.testing.assert_array_equal(boxes[0, 0], [1, 2, 30, 40])
    np.testing.assert_allclose(scores[0], [[0, 0, 0.9], [0, 0, 0]])


def test_ssd_with_background_first() -> None:
    outputs = [made(1, 20, CLASSES + 1, probabilities=True), made(1, 20, 4, probabilities=True)]
    boxes, scores = decode_boxes(BoxDecoder.SSD, outputs, CLASSES, SIZE)
    np.testing.assert_allclose(boxes[0, 5], outputs[1][0, 5] * [96, 64, 96, 64], rtol=1e-6)
    np.testing.assert_array_equal(scores[0, 5], outputs[0][0, 5, 1:])


def test_detr_as_its_postprocess() -> None:
    """detr/models/detr.py, PostProcess: softmax, the last class left out; boxes times the size of the image."""
    outputs = [made(1, 20, CLASSES + 1), made(1, 20, 4, probabilities=True)]
    boxes, scores = decode_boxes(BoxDecoder.DETR, outputs, CLASSES, SIZE)
    weights = [math.exp(v) for v in outputs[0][0, 5]]
    np.testing.assert_allclose(scores[0, 5], np.array(weights[:-1]) / sum(weights), rtol=1e-5)
    np.testing.assert_allclose(boxes[0, 5], np.array(around(*outputs[1][0, 5])) * [96, 64, 96, 64], rtol=1e-5)


def test_centernet_as_its_decode() -> None:
    """CenterNet/src/lib/models/decode.py, ctdet_decode: peaks of 3x3 cells; the stride is 4."""
    heat, spans, offsets = made(1, CLASSES, 16, 24), made(1, 2, 16, 24, seed=1), made(1, 2, 16, 24, seed=2)
    boxes, scores = decode_boxes(BoxDecoder.CENTERNET, [heat, spans, offsets], CLASSES, SIZE)
    for row in range(16):
        for column in range(24):
            index = row * 24 + column
            x, y = column + offsets[0, 0, row, column], row + offsets[0, 1, row, column]
            wanted = np.array(around(x, y, *spans[0, :, row, column])) * 4
            np.testing.assert_allclose(boxes[0, index], wanted, rtol=1e-4, atol=1e-3)
            for label in range(CLASSES):
                near = heat[0, label, max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
                peak = heat[0, label, row, column]
                assert scores[0, index, label] == pytest.approx(sigmoid(peak) if peak == near.max() else 0, rel=1e-5)


def test_picodet_as_paddle_decodes() -> None:
    """PaddleDetection/deploy/third_engine, PicoDetPostProcess: level by level, expected distances from the middle."""
    size, strides = (100, 70), (8, 16, 32, 64)
    grids = [(math.ceil(size[0] / stride), math.ceil(size[1] / stride)) for stride in strides]
    tables = [made(2, rows * columns, CLASSES, seed=rows, probabilities=True) for rows, columns in grids]
    bins = [made(2, rows * columns, 32, seed=columns) for rows, columns in grids]
    boxes, scores = decode_boxes(BoxDecoder.PICODET, [*tables, *bins], CLASSES, size)
    index = 0
    for (rows, columns), stride, table, distributions in zip(grids, strides, tables, bins, strict=True):
        for cell in range(rows * columns):
            row, column = divmod(cell, columns)
            sides = []
            for side in range(4):
                weights = [math.exp(value) for value in distributions[1, cell, 8 * side : 8 * side + 8].tolist()]
                sides.append(stride * sum(place * weight for place, weight in enumerate(weights)) / sum(weights))
            x, y = (column + 0.5) * stride, (row + 0.5) * stride
            wanted = [x - sides[0], y - sides[1], x + sides[2], y + sides[3]]
            np.testing.assert_allclose(boxes[1, index], wanted, rtol=1e-4, atol=1e-3)
            np.testing.assert_array_equal(scores[1, index], table[1, cell])
            index += 1
    assert index == boxes.shape[1]


@pytest.mark.parametrize("kind", list(BoxDecoder))
def test_every_decoder_refuses_other_shapes_and_knows_its_own(kind: BoxDecoder) -> None:
    with pytest.raises(InferenceError, match=f"decoder {kind.value}: outputs per image have shapes"):
        decode_boxes(kind, [made(1, 7)], CLASSES, SIZE)
    outputs = [made(1, *(size or 9 for size in shape)) for shape in decoder_of(kind).shapes(CLASSES, SIZE, STRIDES)]
    boxes, scores = decode_boxes(kind, outputs, CLASSES, SIZE)
    assert (boxes.shape[2], scores.shape) == (4, (1, boxes.shape[1], CLASSES))
    metric = open_metric("map50", {"classes": CLASSES, "decoder": kind.value, "size": list(SIZE)})
    assert set(metric.parts(outputs)) >= {"boxes", "classes"}
    assert metric.labels(outputs) is not None


def test_the_size_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"decoder 'yolox' needs size: \[height, width\]"):
        open_metric("map50", {"classes": 3, "decoder": "yolox"})


def test_helpers() -> None:
    np.testing.assert_array_equal(corners(np.array([[5, 6, 4, 2]], np.float32)), [[3, 5, 7, 7]])
    np.testing.assert_allclose(logistic(np.array([0, 1000, -1000], np.float32)), [0.5, 1, 0])


def test_maps_at_other_strides_than_the_usual_ones() -> None:
    """A network with a fourth stride decodes each map as a network with that one alone would."""
    strides, depth = (4, 8, 16, 32), 4 * 16
    for kind, sides in ((BoxDecoder.YOLOV8_SPLIT, depth), (BoxDecoder.YOLO26_SPLIT, 4)):
        shapes = [(2, channels, SIZE[0] // s, SIZE[1] // s) for s in strides for channels in (sides, CLASSES)]
        outputs = [made(*shape, seed=seed) for seed, shape in enumerate(shapes)]
        boxes, scores = decode_boxes(kind, outputs, CLASSES, SIZE, strides)
        usual, usual_scores = decode_boxes(kind, outputs[2:], CLASSES, SIZE)
        np.testing.assert_array_equal(boxes[:, 16 * 24 :], usual)
        np.testing.assert_array_equal(scores[:, 16 * 24 :], usual_scores)
        alone, _ = decode_boxes(kind, outputs[:2], CLASSES, SIZE, (4,))
        np.testing.assert_array_equal(boxes[:, : 16 * 24], alone)
        assert decoder_of(kind).shapes(CLASSES, SIZE, strides)[0] == (sides, 16, 24)
    joined = [np.concatenate(pair, axis=1) for pair in zip(outputs[::2], outputs[1::2], strict=True)]
    with pytest.raises(InferenceError, match=r"decoder yolov8_heads: outputs per image have shapes"):
        decode_boxes(BoxDecoder.YOLOV8_HEADS, joined, CLASSES, SIZE, strides)


def test_strides_belong_to_pyramids_of_maps() -> None:
    given = {"classes": CLASSES, "size": list(SIZE), "strides": [16, 32]}
    open_metric("map50", {**given, "decoder": "yolov8_split"})
    with pytest.raises(ConfigError, match="strides belong to the decoders yolov8_heads, yolov8_split, yolo26_split"):
        open_metric("map50", {**given, "decoder": "yolox"})
