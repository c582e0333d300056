"""A small image network with its calibration data and configuration, for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import yaml
from onnx import TensorProto, helper, numpy_helper


def write_network(folder: Path, march: str = "bayes-e") -> Path:
    """``net.onnx`` (two convolutions, a pooling), ``data`` and ``net.yaml`` in ``folder``; the path of the last."""
    rng = np.random.default_rng(0)
    arrays = {"w0": rng.normal(0, 0.3, (8, 3, 3, 3)), "w1": rng.normal(0, 0.2, (10, 8, 3, 3))}
    nodes = [
        helper.make_node("Conv", ["image", "w0"], ["c0"], "first", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c0"], ["r0"], "first_relu"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], "second", pads=[1, 1, 1, 1], doc_string="home/me/net.py"),
        helper.make_node("GlobalAveragePool", ["c1"], ["scores"], "pool"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10, 1, 1])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "net.onnx")
    (folder / "data").mkdir()
    for index in range(3):
        rng.integers(0, 256, (1, 3, 16, 16)).astype(np.float32).tofile(folder / "data" / f"{index}.bin")
    content = {
        "model_parameters": {"onnx_model": "./net.onnx", "march": march, "output_model_file_prefix": "small"},
        "input_parameters": {
            "input_type_rt": "rgb",
            "input_layout_rt": "NCHW",
            "input_type_train": "rgb",
            "input_layout_train": "NCHW",
            "norm_type": "data_scale",
            "scale_value": 0.0078125,
        },
        "calibration_parameters": {
            "cal_data_dir": "./data",
            "cal_data_type": "float32",
            "calibration_type": "max",
        },
        "compiler_parameters": {"compile_mode": "latency", "optimize_level": "O2"},
    }
    path = folder / "net.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def write_two_inputs(folder: Path) -> Path:
    """``net.onnx`` with two float inputs and a node for the CPU between two convolutions, data and ``net.yaml``."""
    rng = np.random.default_rng(1)
    weights = [numpy_helper.from_array(rng.normal(0, 0.3, (8, 8, 1, 1)).astype(np.float32), name) for name in "vw"]
    nodes = [
        helper.make_node("Conv", ["a", "v"], ["c"], "first"),
        helper.make_node("Sin", ["c"], ["s"], "between"),
        helper.make_node("Asin", ["s"], ["t"], "again"),
        helper.make_node("Conv", ["t", "w"], ["d"], "second"),
        helper.make_node("Add", ["d", "b"], ["y"], "sum"),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 6, 6]) for name in "aby"]
    graph = helper.make_graph(nodes, "two", values[:2], values[2:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "net.onnx")
    for name in "ab":
        (folder / name).mkdir()
        for index in range(3):
            rng.normal(0, 1, (1, 8, 6, 6)).astype(np.float32).tofile(folder / name / f"{index}.bin")
    content = {
        "model_parameters": {
            "onnx_model": "./net.onnx",
            "march": "bayes-e",
            "output_model_file_prefix": "two",
            "node_info": {"again": {"ON": "CPU"}},
        },
        "input_parameters": {
            "input_name": "a;b",
            "input_shape": "1x8x6x6;1x8x6x6",
            "input_type_rt": "featuremap;featuremap",
            "input_layout_rt": "NCHW;NCHW",
            "input_type_train": "featuremap;featuremap",
            "input_layout_train": "NCHW;NCHW",
            "norm_type": "no_preprocess;no_preprocess",
        },
        "calibration_parameters": {
            "cal_data_dir": "./a;./b",
            "cal_data_type": "float32;float32",
            "calibration_type": "max",
        },
        "compiler_parameters": {"compile_mode": "latency", "optimize_level": "O2"},
    }
    path = folder / "net.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path
