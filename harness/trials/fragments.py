"""The settings of a trial as the part of a converter's YAML file that asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from engine.terms import Compatibility, DataType
from harness.suites.settings import SWITCHES
from harness.trials.figures import Footprint
from harness.trials.trial import TrialResult, TrialSpec
from harness.zoo.cards import load_card, model_cards


def fragment(spec: TrialSpec, int16_nodes: Sequence[str]) -> dict[str, Any]:
    """What to write into a converter's YAML file to convert as a trial does, by parameter group.

    Args:
        spec: the trial.
        int16_nodes: that its int16 policy asks for.
    """
    settings = spec.settings
    model: dict[str, Any] = {"march": spec.march.value}
    if settings.compatibility is not Compatibility.ORIGINAL:
        model["compatibility"] = settings.compatibility.value
    if int16_nodes:
        int16 = DataType.INT16.value
        model["node_info"] = {name: {"InputType": int16, "OutputType": int16} for name in int16_nodes}
    calibration: dict[str, Any] = {"calibration_type": settings.calibration_type.value}
    if settings.max_percentile != 1.0:
        calibration["max_percentile"] = settings.max_percentile
    if settings.per_channel:
        calibration["per_channel"] = True
    switches = [name for name in SWITCHES if getattr(settings, name)]
    if switches:
        calibration["optimization"] = ";".join(switches)
    if settings.corrections:
        calibration["corrections"] = ";".join(settings.corrections)
    groups: dict[str, Any] = {"model_parameters": model}
    if settings.input_type_rt is not None:
        groups["input_parameters"] = {"input_type_rt": settings.input_type_rt.value}
    return groups | {"calibration_parameters": calibration}


def _time(footprint: Footprint) -> str:
    """Milliseconds, and how much of them is an estimate of CPU times that nothing was measured for."""
    unmeasured = footprint.cpu_ms - footprint.cpu_measured_ms
    guessed = f", of them ~{unmeasured:.3f} on the CPU, for which nothing was measured" if unmeasured > 0 else ""
    return f"{footprint.total_ms:.3f} ms{guessed}"


def as_yaml(result: TrialResult) -> str:
    """:func:`fragment` as text, with the trial it stands for in a comment."""
    spec = result.spec
    head = f"# {spec.id}: calibrated on {spec.calibration_samples} samples"
    if result.accuracy is not None and result.footprint is not None:
        head += f"; {result.accuracy.metric} {result.accuracy.value:.4f}, {_time(result.footprint)}"
    content = fragment(spec, result.int16_nodes)
    type_rt = spec.settings.input_type_rt
    if type_rt is not None and spec.model in model_cards():  # one entry per input
        content["input_parameters"] = {"input_type_rt": ";".join(load_card(spec.model).run_time_types(type_rt))}
    return f"{head}\n{yaml.safe_dump(content, sort_keys=False)}"
