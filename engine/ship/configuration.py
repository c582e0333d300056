"""``net.yaml`` of a ship folder: what the toolchain is told besides the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from engine.chips import HB_COMPILE_MARCHES
from engine.config import CompilerParameters, InputSpec
from engine.ship.requests import requested
from engine.ship.shipment import Shipment
from engine.terms import InputType, Layout

WORKING_DIR = "./model_output"
"""Where the toolchain writes its results, in the ship folder."""


def configuration_text(shipment: Shipment) -> bytes:
    """The text of ``net.yaml``: march, inputs, ``load``, ``node_info`` and compiler parameters of ``shipment``."""
    given = shipment.config.model_parameters
    model: dict[str, Any] = {
        "onnx_model": "./net.onnx",
        "march": given.march.value,
        "output_model_file_prefix": given.output_model_file_prefix,
        "working_dir": WORKING_DIR,
    }
    for key, names in (("remove_node_type", given.remove_node_type), ("remove_node_name", given.remove_node_name)):
        if names:
            model[key] = ";".join(str(name) for name in names)
    if found := requested(shipment):
        model["node_info"] = found
    content = {
        "model_parameters": model,
        "input_parameters": _inputs(shipment),
        "calibration_parameters": {"calibration_type": "load"},
        "compiler_parameters": _compiler(shipment.config.compiler_parameters),
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True).encode()


def _inputs(shipment: Shipment) -> dict[str, Any]:
    """``input_parameters`` of inputs whose shapes the network says."""
    specs, batch = shipment.specs, shipment.config.input_parameters.input_batch
    norms = [spec.norm_type for spec in specs]
    # The dialect of the S100 has no such key.
    layouts = [] if shipment.config.march in HB_COMPILE_MARCHES else [_layout_rt(spec) for spec in specs]
    found: dict[str, Any] = {
        "input_name": _joined(spec.name for spec in specs),
        "input_type_train": _joined(spec.type_train.value for spec in specs),
        "input_layout_train": _joined(spec.layout_train.value for spec in specs),
        "input_type_rt": _joined(spec.type_rt.value for spec in specs),
    }
    if any(layouts):
        found["input_layout_rt"] = _joined(layout.value if layout else "None" for layout in layouts)
    if any(spec.space_and_range.value != "regular" for spec in specs):
        found["input_space_and_range"] = _joined(spec.space_and_range.value for spec in specs)
    if batch > 1:
        found["input_batch"] = batch
    found["norm_type"] = _joined(norm.value for norm in norms)
    if any(norm.has_mean for norm in norms):
        found["mean_value"] = _joined(_numbers(spec.mean) for spec in specs)
    if any(norm.has_scale for norm in norms):
        found["scale_value"] = _joined(_numbers(spec.scale) for spec in specs)
    return found


def _layout_rt(spec: InputSpec) -> Layout | None:
    """What ``spec`` means where it says no layout: the toolchain wants one for all but nv12."""
    if spec.type_rt is InputType.NV12:
        return None
    return spec.layout_rt or (spec.layout_train if spec.type_rt is InputType.FEATUREMAP else Layout.NHWC)


def _joined(texts: Any) -> str:
    return ";".join(texts)


def _numbers(values: Sequence[float]) -> str:
    return " ".join(repr(float(value)) for value in values) or "None"


def _compiler(given: CompilerParameters) -> dict[str, Any]:
    """What was given, and what every file should say."""
    said = {"compile_mode", "optimize_level", *given.model_fields_set}
    return given.model_dump(mode="json", include=said, exclude_none=True)
