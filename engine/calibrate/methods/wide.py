"""Convolutions of int16 inputs whose result is narrower than their arithmetic: it is calibrated twice."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.calibrate.methods.thresholds import set_thresholds
from engine.facts.devices import on_bpu
from engine.ir import (
    ACTIVATION_QUANT_ATTRS,
    CALIBRATION_OP,
    HORIZON_DOMAIN,
    calibration_nodes,
    calibration_of,
    is_calibration,
    read_calibration,
)
from engine.terms import DataType


def widen_results(calibrated: ir.Model) -> ir.Model:
    """``calibrated``, or a copy with an int16 calibration more behind convolutions that read int16.

    One input at its threshold times the largest weight at its own may be more than the result's threshold: in float64,
    so also where it rounds to that (a product with one number, `_94` of seed 49).
    Such a result is int16 up to that product first, then what it was. So are the eight results of which that holds in
    ``mobilenet_v3``, ``yolov8_nhwc`` and EfficientNet-Lite0, and none of the 60 others in six networks; also behind the
    Relu of the convolution, but not behind a Clip (five and ten residual blocks, ``tests/parity/wide_sums.py``).

    Names are the original's where there is one such result: it numbers what it adds by what the graph has. Of several
    it takes them in an order that is not known; here it is the graph's.
    """
    if all(_needed(node) is None for node in calibration_nodes(calibrated)):
        return calibrated
    model = calibrated.clone()
    graph = model.graph
    values = len(graph.initializers) + len(graph.inputs) + sum(len(node.outputs) for node in graph)
    nodes = sum(1 for _ in graph)
    found = [(node, width) for node in tuple(calibration_nodes(model)) if (width := _needed(node)) is not None]
    for index, (node, width) in enumerate(found):
        _insert(graph, node, width, f"HzCalibration_{nodes + index}", f"variable_{values + index}")
    return model


def _needed(calibration: ir.Node) -> np.float32 | None:
    """The threshold that the result in front of ``calibration`` needs first; ``None`` where its own is enough."""
    value = calibration.inputs[0]
    producer = None if value is None else value.producer()
    if producer is not None and producer.op_type == "Relu" and producer.inputs[0] is not None:
        producer = producer.inputs[0].producer()
    if producer is None or producer.op_type != "Conv" or not on_bpu(producer):
        return None
    data, weight = (calibration_of(each) for each in producer.inputs[:2])
    if data is None or weight is None or data.qtype != DataType.INT16.value:
        return None
    width = float(data.thresholds.max()) * float(weight.thresholds.max())
    if width <= float(read_calibration(calibration).thresholds.max()):
        return None
    with np.errstate(over="ignore"):
        return np.float32(width)


def _insert(graph: ir.Graph, calibration: ir.Node, width: np.float32, name: str, output: str) -> None:
    value = calibration.inputs[0]
    if value is None or is_calibration(value.producer()):
        return
    result = ir.Value(name=output, type=value.type, shape=value.shape)
    attributes: dict[str, int | str] = {
        "quant_attrs": ACTIVATION_QUANT_ATTRS,
        "qtype": DataType.INT16.value,
        "constant": 1,
        "switch": "ON",
    }
    node = ir.node(CALIBRATION_OP, [value], attributes, domain=HORIZON_DOMAIN, outputs=[result], name=name)
    set_thresholds(node, np.array([width], np.float32))
    graph.insert_before(calibration, node)
    calibration.replace_input_with(0, result)
