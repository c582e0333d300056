"""Calibrated models to debug: the bundled zoo's, made with random images."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate import CalibrationOptions, StatisticsOptions, calibrate, calibration_tensors, collect
from engine.debug.analysis.model import DebugModel
from engine.debug.analysis.variants import Variant, switch
from engine.frontend import preprocess
from engine.frontend.onnx import load_onnx
from engine.ir import shape_of
from engine.optimize import optimize
from engine.place import PlacementOptions, place

ZOO = Path(__file__).resolve().parents[3] / "suites" / "zoo"
MARCH = "bayes-e"


@cache
def zoo(name: str) -> tuple[ir.Model, dict[str, NDArray[np.float32]]]:
    """The calibrated model of a bundled network, and three samples."""
    optimized = optimize(preprocess.insert(load_onnx(ZOO / f"{name}.onnx"), []), MARCH)
    placed = place(optimized, MARCH, PlacementOptions()).model
    feed = random_feed(optimized, 3)
    statistics = collect(optimized, calibration_tensors(placed), feed, StatisticsOptions())
    return calibrate(placed, statistics, CalibrationOptions()), feed


def in_variant(model: DebugModel, variant: Variant) -> ir.Model:
    """A copy of ``model`` in which exactly ``variant`` quantises."""
    copy = model.model.clone()
    switch(copy, variant)
    return copy


def random_feed(model: ir.Model, samples: int, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Smooth random input by name: noise on a coarse grid, so that activations are not all alike."""
    rng = np.random.default_rng(seed)
    feed = {}
    for value in model.graph.inputs:
        rows, *rest = shape_of(value)
        feed[str(value.name)] = rng.random((samples * rows, *rest)).astype(np.float32)
    return feed
