"""Tiny ONNX files for the frontend's tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def network(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    opset: int = 13,
    ir_version: int = 8,
) -> onnx.ModelProto:
    """A model of float32 inputs and outputs, the shapes of the outputs unknown."""
    graph = helper.make_graph(
        list(nodes),
        "network",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def convolution(
    opset: int = 13, ir_version: int = 8, shape: Sequence[int | str] = (1, 3, 8, 8), name: str = "Conv_0"
) -> onnx.ModelProto:
    """One 3x3 convolution ``x`` to ``y``."""
    weight = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name=name)
    return network([node], {"x": shape}, ["y"], {"w": weight}, opset, ir_version)


def saved(model: onnx.ModelProto, folder: Path, name: str = "m.onnx") -> Path:
    """Write ``model`` into ``folder``."""
    path = folder / name
    onnx.save(model, path)
    return path
