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
    return parse_config(content(card, spec, int16_nodes, model, [Path()] * len(card.input_specs)), f"trial {spec.id}")


def content(
    card: ModelCard, spec: TrialSpec, int16_nodes: Sequence[str], model: Path, data: Sequence[Path]
) -> dict[str, dict[str, Any]]:
    """The configuration as a YAML file holds it; ``data``: the folders of the calibration data, images as raw uint8."""
    asked = fragment(spec, int16_nodes)
    own = {"onnx_model": str(model), "output_model_file_prefix": card.name, "working_dir": "out"}
    return {
        "model_parameters": own | asked["model_parameters"],
        "input_parameters": input_parameters(card, spec.settings.input_type_rt),
        "calibration_parameters": {
            "cal_data_dir": ";".join(map(str, data)),
            "cal_data_type": ";".join("uint8" if each.is_image else "float32" for each in card.input_specs),
            **asked["calibration_parameters"],
        },
        "compiler_parameters": {
            "compile_mode": CompileMode.LATENCY.value,
            "optimize_level": DEFAULT_OPTIMIZE_LEVEL.value,
        },
    }


def input_parameters(card: ModelCard, type_rt: InputType | None) -> dict[str, str]:
    """The card's ``input_parameters`` as a YAML file holds them, images in the run-time format ``type_rt``, if any."""
    inputs = card.converter_yaml()
    if type_rt is None:
        return inputs
    kinds = card.run_time_types(type_rt)
    layouts = [
        None if kind is InputType.NV12 else spec.layout_rt or (spec.layout_train if kind is not spec.type_rt else None)
        for kind, spec in zip(kinds, card.input_specs, strict=True)
    ]
    inputs["input_type_rt"] = ";".join(kind.value for kind in kinds)
    inputs.pop("input_layout_rt", None)
    if any(layouts):
        inputs["input_layout_rt"] = ";".join("None" if layout is None else layout.value for layout in layouts)
    return inputs
