"""EfficientNet-Lite0 as the original converted it: its input, its graph, the 50 calibration images, its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.calibrate import ArrayData, CalibrationOptions
from engine.config import InputSpec
from engine.frontend import preprocess
from engine.frontend.onnx import load_onnx
from engine.optimize import optimize
from engine.terms import InputType, Layout, NormType

MARCH = "bayes-e"
FILE = "efficientnet_lite0.onnx"
INPUT = InputSpec(
    name="data",
    type_train=InputType.RGB,
    type_rt=InputType.RGB,
    norm_type=NormType.MEAN_AND_SCALE,
    mean=(127.0,),
    scale=(0.0078125,),
    layout_train=Layout.NCHW,
)


def optimized_model(path: Path) -> ir.Model:
    """The optimized_float model of the float model in ``path``."""
    return optimize(preprocess.insert(load_onnx(path), [INPUT]), MARCH)


def calibration_images(reference: Path) -> ArrayData:
    """The images that the original was calibrated with, in its order."""
    with np.load(reference / "calibration" / "efficientnet_lite0_calibration_images.npz") as archive:
        return ArrayData({"data": archive["images"].transpose(0, 3, 1, 2)}, [INPUT])


def options_of(measured: dict[str, Any]) -> CalibrationOptions:
    """The options of a measured conversion."""
    given = dict(measured["calibration_parameters"])
    chosen = given.pop("optimization", "").split(";")
    return CalibrationOptions(**given, asymmetric="asymmetric" in chosen, bias_correction="bias_correction" in chosen)
