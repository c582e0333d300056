"""A trial as the configuration of a conversion, which the bundled engine and the vendor's command both take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.config import Config, parse_config
from engine.terms import DEFAULT_OPTIMIZE_LEVEL, CompileMode, InputType
from harness.trials.fragments import fragment
from harness.trials.trial import TrialSpec
from harness.zoo.cards import ModelCard


def configuration(card: ModelCard, spec: TrialSpec, int16_nodes: Sequence[str], model: Path) -> Config:
    """The conversion that a trial asks for; its calibration data are given to the run, not read from a folder.

    Args:
        card: of the float model.
        spec: the trial.
        int16_nodes: nodes that its int16 policy asks for.
        model: the float model's file.

    Raises:
        ConfigError: the march does not have what the trial asks for.
    """
    return parse_config(content(card, spec, int16_nodes, model, Path()), f"trial {spec.id}")


def content(
    card: ModelCard, spec: TrialSpec, int16_nodes: Sequence[str], model: Path, data: Path
) -> dict[str, dict[str, Any]]:
    """The same as a YAML file holds it; ``data``: the folder of the calibration data, raw uint8 images."""
    asked = fragment(spec, int16_nodes)
    own = {"onnx_model": str(model), "output_model_file_prefix": card.name, "working_dir": "out"}
    inputs = card.converter_yaml() | asked.get("input_parameters", {})
    if inputs["input_type_rt"] == InputType.NV12.value:
        inputs.pop("input_layout_rt", None)
    elif inputs["input_type_rt"] != card.input_spec.type_rt.value:
        inputs.setdefault("input_layout_rt", inputs["input_layout_train"])
    return {
        "model_parameters": own | asked["model_parameters"],
        "input_parameters": inputs,
        "calibration_parameters": {
            "cal_data_dir": str(data),
            "cal_data_type": "uint8",
            **asked["calibration_parameters"],
        },
        "compiler_parameters": {
            "compile_mode": CompileMode.LATENCY.value,
            "optimize_level": DEFAULT_OPTIMIZE_LEVEL.value,
        },
    }
