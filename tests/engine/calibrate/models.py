"""Small graphs for the calibration tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from engine.calibrate import ArrayData, CalibrationOptions, run_calibration
from engine.ir import (
    ACTIVATION_QUANT_ATTRS,
    CALIBRATION_OP,
    HORIZON_DOMAIN,
    MARK_MARCH,
    WEIGHT_QUANT_ATTRS,
    calibration_nodes,
    read_calibration,
)
from engine.place import PlacementOptions, place

DATA = {"x": np.random.default_rng(3).standard_normal((10, 3, 6, 5)).astype(np.float32)}
"""Ten samples for :func:`residual`."""
TENSORS = ("x", "c0", "r0", "a", "g")
"""Activations of :func:`residual`."""
EVERYTHING = (
    CalibrationOptions(),
    CalibrationOptions(max_percentile=0.999),
    CalibrationOptions(max_percentile=0.9),
    CalibrationOptions(max_percentile=0.9, per_channel=True),
    CalibrationOptions(per_channel=True),
    CalibrationOptions(calibration_type="kl"),
    CalibrationOptions(calibration_type="kl", per_channel=True),
)
"""Options that need all statistics together."""
RANGES = {"int8": (-128, 127), "int16": (-32768, 32767), "uint8": (0, 255)}


def samples(count: int, shape: tuple[int, ...] = (3, 6, 5), seed: int = 1) -> NDArray[np.float32]:
    """Normal samples of different magnitudes."""
    rng = np.random.default_rng(seed)
    scales = rng.uniform(0.5, 2, (count, *(1 for _ in shape)))
    return (rng.standard_normal((count, *shape)) * scales).astype(np.float32)


def quantized_by_hand(x: NDArray[np.float32], scale: NDArray[np.float32], qtype: str) -> NDArray[np.float32]:
    """round half to even, one value at a time, in exact arithmetic of Python."""
    low, high = RANGES[qtype]
    ratio = (x / scale).astype(np.float32)
    integers = np.asarray([min(max(round(float(value)), low), high) for value in ratio.ravel()], np.float32)
    return (integers.reshape(x.shape) * scale).astype(np.float32)


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, tuple[int, ...]],
    outputs: Sequence[str],
    constants: dict[str, NDArray[Any]] | None = None,
    opset: int = 13,
) -> ir.Model:
    """A model with static inferred shapes."""
    proto = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=8,
    )
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True))


def identity(shape: tuple[int, ...], opset: int = 13) -> ir.Model:
    """``t = |x|``, ``y = -t``: the tensor ``t`` holds what the input holds, without signs."""
    nodes = [helper.make_node("Abs", ["x"], ["t"], name="abs"), helper.make_node("Neg", ["t"], ["y"], name="neg")]
    return graph(nodes, {"x": shape}, ["y"], opset=opset)


def residual(opset: int = 13, seed: int = 0) -> ir.Model:
    """conv0 -> relu -> conv1, added to conv0's output; a classifier with Reshape at the end."""
    rng = np.random.default_rng(seed)
    constants = {
        "w0": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "b0": rng.standard_normal(4).astype(np.float32),
        "w1": rng.standard_normal((4, 4, 1, 1)).astype(np.float32),
        "b1": np.zeros(4, np.float32),
        "shape": np.asarray([1, -1], np.int64),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], name="conv0", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"], name="relu0"),
        helper.make_node("Conv", ["r0", "w1", "b1"], ["c1"], name="conv1"),
        helper.make_node("Add", ["c1", "c0"], ["a"], name="add"),
        helper.make_node("GlobalAveragePool", ["a"], ["g"], name="gap"),
        helper.make_node("Reshape", ["g", "shape"], ["y"], name="reshape"),
    ]
    return graph(nodes, {"x": (1, 3, 6, 5)}, ["y"], constants, opset)


def shortcut() -> ir.Model:
    """conv0 -> relu -> conv1, added to relu's output, for bayes-e: channels of ``r0`` may have thresholds of their own.

    Inputs, weights and names are those of :func:`residual`.
    """
    model = residual()
    nodes = {str(node.name): node for node in model.graph}
    nodes["add"].replace_input_with(1, nodes["relu0"].outputs[0])
    model.metadata_props[MARK_MARCH] = "bayes-e"
    return model


def add_calibration(model: ir.Model, name: str, **attributes: Any) -> ir.Node:
    """Put an ``HzCalibration`` behind tensor ``name``, without thresholds, as placement does."""
    values = {str(value.name): value for value in model.graph.inputs}
    values.update({str(value.name): value for node in model.graph for value in node.outputs})
    values.update({str(key): value for key, value in model.graph.initializers.items()})
    value = values[name]
    weight = name in model.graph.initializers
    given: dict[str, Any] = {
        "quant_attrs": WEIGHT_QUANT_ATTRS if weight else ACTIVATION_QUANT_ATTRS,
        "qtype": "int8",
        "constant": 1,
        "switch": "ON",
    }
    if weight:
        given.update(group=1, axis=0)
    given.update(attributes)
    uses = tuple(value.uses())
    result = ir.Value(name=f"{name}_calibrated", type=value.type, shape=value.shape)
    node = ir.node(
        CALIBRATION_OP, [value], given, domain=HORIZON_DOMAIN, outputs=[result], name=f"{name}_HzCalibration"
    )
    producer = value.producer()
    if producer is None:
        model.graph.insert_before(model.graph[0], node)
    else:
        model.graph.insert_after(producer, node)
    for user, index in uses:
        user.replace_input_with(index, result)
    model.opset_imports[HORIZON_DOMAIN] = 1
    return node


def calibrated_residual(**options: object) -> ir.Model:
    """:func:`residual`, placed on bayes-e and calibrated with :data:`DATA`."""
    model = residual()
    placed = place(model, "bayes-e", PlacementOptions()).model
    return run_calibration(model, placed, ArrayData(DATA), CalibrationOptions.model_validate(options))


def thresholds_of(model: ir.Model) -> dict[str, list[float]]:
    """By name of the ``HzCalibration``."""
    return {str(node.name): read_calibration(node).thresholds.tolist() for node in calibration_nodes(model)}
