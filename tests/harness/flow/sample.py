"""A classifier of three colours, its images and its configuration in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml
from onnx import helper
from PIL import Image

from tests.engine.frontend.networks import network

SIDE = 16
COLOURS = ("blue", "green", "red")


def make_sample(folder: Path, march: str = "bayes-e", **inputs: Any) -> Path:
    """``net.onnx`` (BGR, NCHW, softmax over the mean of each channel), ``images/<colour>/*.png``; the YAML file."""
    nodes = [
        helper.make_node("Conv", ["data", "w"], ["c"], "conv"),
        helper.make_node("GlobalAveragePool", ["c"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Softmax", ["f"], ["prob"], "prob", axis=1),
    ]
    weight = 4 * np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1)
    model = network(nodes, {"data": (1, 3, SIDE, SIDE)}, ["prob"], {"w": weight}, 11, 7)
    onnx.save(model, folder / "net.onnx")
    random = np.random.default_rng(0)
    for index, colour in enumerate(COLOURS):
        (folder / "images" / colour).mkdir(parents=True)
        for number in range(4):
            pixels = random.integers(0, 100, (24, 20, 3), np.uint8)
            pixels[..., 2 - index] += 100  # a file is RGB
            Image.fromarray(pixels).save(folder / "images" / colour / f"{number}.png")
    newer = march.startswith("nash")
    content = {
        "model_parameters": {
            "onnx_model": "net.onnx",
            "march": march,
            "output_model_file_prefix": "net",
            "working_dir": str(folder / "out"),
        },
        "input_parameters": {
            "input_name": "data",
            "input_type_train": "bgr",
            "input_type_rt": "nv12",
            "input_layout_train": "NCHW",
            "mean_value": "104 117 123",
            "scale_value": "0.017",
            **({} if newer else {"norm_type": "data_mean_and_scale"}),
            **inputs,
        },
        "calibration_parameters": {"cal_data_dir": str(folder / "calibration_f32"), "calibration_type": "max"},
        "compiler_parameters": {"optimize_level": "O2"},
    }
    path = folder / "net.yaml"
    path.write_text(yaml.safe_dump(content))
    return path
