"""Conversions as their YAML files describe them, for tests that change a parameter or two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.zoo.cards import ModelCard

FEATUREMAP: dict[str, dict[str, Any]] = {
    "model_parameters": {
        "onnx_model": "m.onnx",
        "march": "bayes-e",
        "output_model_file_prefix": "m",
        "working_dir": "out",
    },
    "input_parameters": {"input_type_train": "featuremap", "input_layout_train": "NCHW", "input_type_rt": "featuremap"},
    "calibration_parameters": {"cal_data_dir": "data", "cal_data_type": "float32", "calibration_type": "max"},
}
"""``m.onnx`` in the working directory, float32 samples in ``data``, results in ``out``."""


def of_card(card: ModelCard, data: Path, march: str = "bayes-e", **model_parameters: Any) -> dict[str, dict[str, Any]]:
    """The conversion of a bundled model by ``max`` with the samples in ``data``."""
    return {
        "model_parameters": {
            "onnx_model": str(card.model_path()),
            "march": march,
            "output_model_file_prefix": "net",
            **model_parameters,
        },
        "input_parameters": dict(card.converter_yaml()),
        "calibration_parameters": {"cal_data_dir": str(data), "calibration_type": "max"},
        "compiler_parameters": {"compile_mode": "latency", "optimize_level": "O2"},
    }
