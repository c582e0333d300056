"""Converts a network with the made-up operator, stage by stage; run where the engine has it. Prints what it found."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from engine.compile.tiles import tiled_model
from engine.facts.devices import on_bpu
from engine.ops.core.reasons import sentence_of
from engine.perf import estimate
from engine.quantize.error_bound import node_error_bounds
from engine.simulate import Session
from engine.simulate.assemble import assemble
from engine.simulate.portable import to_standard
from tests.properties.stages import Stages
from tests.properties.test_node_error import check

SHAPE = (1, 4, 12, 12)


def network(shape: tuple[int, ...] = SHAPE) -> onnx.ModelProto:
    """Convolution, Neg, convolution; on a map of rank 3 Neg and a sum."""
    if len(shape) == 3:
        nodes = [helper.make_node("Neg", ["x"], ["n"], "negated"), helper.make_node("Add", ["n", "x"], ["y"], "last")]
        return model_of(nodes, shape, [])
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.normal(size=(4, 4, 3, 3)).astype(np.float32), name) for name in ("v", "w")]
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["c"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Neg", ["c"], ["n"], "negated"),
        helper.make_node("Conv", ["n", "w"], ["y"], "last", pads=[1, 1, 1, 1]),
    ]
    return model_of(nodes, shape, weights)


def model_of(nodes: list[onnx.NodeProto], shape: tuple[int, ...], weights: list[onnx.TensorProto]) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph(nodes, "made_up", values[:1], values[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def negation(stages: Stages) -> ir.Node:
    """The float node as it was placed."""
    return next(node for node in stages.placed.graph if node.op_type == "Neg")


def found() -> dict[str, Any]:
    """What every stage and backend makes of the operator."""
    samples = np.random.default_rng(1).normal(size=(3, *SHAPE[1:])).astype(np.float32)
    stages = Stages(network(), samples, "bayes-e")
    node = negation(stages)
    refused = negation(Stages(network((1, 4, 12)), samples[..., 0], "bayes-e"))
    feed = {"x": samples}
    expected = Session(stages.quantized, mode="reference").run(feed)["y"]
    compiled = stages.compiled
    tiles = tiled_model(compiled.model, compiled.segments, compiled.schedules, 0)
    (layer,) = [layer for schedule in compiled.schedules for layer in schedule.layers if layer.op_type == "HzMadeUp"]
    (timed,) = [layer for layer in estimate(compiled).layers if layer.op_type == "HzMadeUp"]
    exported = ir.to_proto(to_standard(stages.quantized)).SerializeToString()
    (bound,) = [
        entry
        for entry in node_error_bounds(stages.calibrated, stages.quantized, "bayes-e")
        if entry.node.op_type == "HzMadeUp"
    ]
    check(bound, np.random.default_rng(2), 1.0)
    standard = np.concatenate([ort.InferenceSession(exported).run(None, {"x": x[None]})[0] for x in samples])
    return {
        "placed on the BPU": on_bpu(node),
        "of rank 3": sentence_of(refused),
        "quantised as": [entry.op_type for entry in stages.quantized.graph if entry.name == "negated"],
        "fast equals reference": np.array_equal(Session(stages.quantized).run(feed)["y"], expected),
        "interpreted": len(assemble(stages.quantized).interpreted),
        "cost": layer.kind,
        "tiles": sum(entry.op_type == "HzMadeUp" for entry in tiles.graph),
        "tiles equal": np.array_equal(Session(tiles).run(feed)["y"], expected),
        "predicted": max(timed.compute_us, timed.transfer_us) > 0,
        "exported domains": sorted({entry.domain for entry in onnx.load_from_string(exported).graph.node}),
        "exported equals reference": np.array_equal(standard, expected),
        "bound in units": float(bound.bound[0] / bound.scale[0]),
    }


if __name__ == "__main__":
    json.dump(found(), sys.stdout)
