"""Networks quantised without data: every threshold is the default one."""

from __future__ import annotations

import onnx_ir as ir

from engine.calibrate import apply_thresholds
from engine.place import PlacementOptions, place
from engine.quantize import quantize


def calibrated(model: ir.Model, march: str = "bayes-e", options: PlacementOptions | None = None) -> ir.Model:
    return apply_thresholds(place(model, march, options or PlacementOptions()).model, None)


def quantized(model: ir.Model, march: str = "bayes-e", options: PlacementOptions | None = None) -> ir.Model:
    return quantize(calibrated(model, march, options), march)


def types(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]
