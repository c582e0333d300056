"""A valid configuration, and changes of it."""

from __future__ import annotations

import copy
from typing import Any

VALID: dict[str, Any] = {
    "model_parameters": {"onnx_model": "m.onnx", "march": "bayes-e", "output_model_file_prefix": "m"},
    "input_parameters": {
        "input_name": "data",
        "input_type_train": "rgb",
        "input_layout_train": "NCHW",
        "input_shape": "1x3x32x32",
        "norm_type": "data_mean_and_scale",
        "mean_value": "123.675 116.28 103.53",
        "scale_value": 0.0078125,
        "input_type_rt": "nv12",
        "input_layout_rt": "NHWC",
    },
    "calibration_parameters": {"cal_data_dir": "./cal", "cal_data_type": "float32", "calibration_type": "max"},
    "compiler_parameters": {"compile_mode": "latency", "debug": False, "optimize_level": "O3"},
}
TWO_INPUTS = {
    "input_name": "a; b",
    "input_type_train": "rgb; featuremap",
    "input_layout_train": "NCHW; NCHW",
    "input_shape": "1x3x32x32; 1x8",
    "norm_type": "data_scale; no_preprocess",
    "mean_value": "None; None",
    "scale_value": "0.5; None",
    "input_type_rt": "rgb; featuremap",
    "input_layout_rt": "NHWC; None",
}


def changed(**values: Any) -> dict[str, Any]:
    """``VALID`` with ``group__key`` set; ``...`` removes the key or, without ``__``, the group."""
    content = copy.deepcopy(VALID)
    for name, value in values.items():
        group, _, key = name.partition("__")
        group = "custom_op" if group == "custom_op" else f"{group}_parameters"
        target, key = (content[group], key) if key else (content, group)
        if value is ...:
            del target[key]
        else:
            target[key] = value
    return content
