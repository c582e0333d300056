"""A conversion for the S100 in a temporary folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml

from tests.engine.frontend.networks import convolution

CONFIG: dict[str, dict[str, Any]] = {
    "model_parameters": {
        "onnx_model": "m.onnx",
        "march": "nash-e",
        "output_model_file_prefix": "m",
        "working_dir": "out",
    },
    "input_parameters": {
        "input_name": "x",
        "input_type_train": "rgb",
        "input_type_rt": "nv12",
        "mean_value": "123.675 116.28 103.53",
        "std_value": "58.395 57.12 57.375",
    },
    "calibration_parameters": {"cal_data_dir": "data", "calibration_type": "max"},
    "compiler_parameters": {"optimize_level": "O2"},
}


def make_folder(tmp_path: Path) -> Path:
    """A model and calibration data."""
    onnx.save(convolution(), tmp_path / "m.onnx")
    (tmp_path / "data").mkdir()
    image = np.random.default_rng(0).integers(0, 256, (1, 3, 8, 8)).astype(np.float32)
    np.save(tmp_path / "data" / "0.npy", image)
    return tmp_path


def written(folder: Path, **changes: dict[str, Any]) -> Path:
    """``c.yaml`` with keys of groups replaced; ``...`` removes them."""
    content = {group: {**values, **changes.get(group, {})} for group, values in CONFIG.items()}
    for group, values in content.items():
        content[group] = {key: value for key, value in values.items() if value is not ...}
    path = folder / "c.yaml"
    path.write_text(yaml.safe_dump(content))
    return path
