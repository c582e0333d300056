"""All stages of one generated conversion, and what a failing example leaves behind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate import CalibrationOptions, StatisticsOptions, calibrate, calibration_tensors, collect
from engine.compile import CompiledModel, CompileOptions, compile_model
from engine.config import InputSpec
from engine.frontend import preprocess
from engine.frontend.onnx import load_onnx
from engine.optimize import optimize
from engine.place import PlacementOptions, place
from engine.quantize import quantize

FAILURES = Path(__file__).resolve().parents[2] / "failures"

MARCHES = ("bayes-e", "bayes", "bernoulli2")


@dataclass(frozen=True)
class Stages:
    """The models of one conversion, each computed when first asked for.

    Attributes:
        model: the float source network.
        calibration: what the original_float model is fed with, per sample: float32, shape (samples, C, H, W); by input
            where there are several.
        inputs: how each input is preprocessed; empty for feature maps.
    """

    model: onnx.ModelProto
    calibration: NDArray[np.float32] | Mapping[str, NDArray[np.float32]]
    march: str
    inputs: Sequence[InputSpec] = ()
    placement: PlacementOptions = field(default_factory=PlacementOptions)
    options: CalibrationOptions = field(default_factory=CalibrationOptions)

    @cached_property
    def source(self) -> ir.Model:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "source.onnx"
            onnx.save(self.model, path)
            return load_onnx(path)

    @cached_property
    def original(self) -> ir.Model:
        return preprocess.insert(self.source, self.inputs)

    @cached_property
    def optimized(self) -> ir.Model:
        return optimize(self.original, self.march)

    @cached_property
    def placed(self) -> ir.Model:
        return place(self.optimized, self.march, self.placement).model

    @cached_property
    def calibrated(self) -> ir.Model:
        wanted = StatisticsOptions.covering([self.options])
        statistics = collect(self.optimized, calibration_tensors(self.placed), self.feed, wanted)
        return calibrate(self.placed, statistics, self.options)

    @property
    def feed(self) -> dict[str, NDArray[np.float32]]:
        """The calibration data by input."""
        if isinstance(self.calibration, Mapping):
            return dict(self.calibration)
        return {str(self.optimized.graph.inputs[0].name): self.calibration}

    @cached_property
    def quantized(self) -> ir.Model:
        return quantize(self.calibrated, self.march)

    @cached_property
    def compiled(self) -> CompiledModel:
        return compile_model(self.quantized, self.march, CompileOptions())


@contextmanager
def evidence(test: str, stages: Stages, blocks: Sequence[str], stage: str, **arrays: NDArray) -> Iterator[None]:
    """Keep ONNX file, inputs and the first stage that differs in ``failures/TEST`` when the body fails.

    Hypothesis replays the smallest failing example last, so the folder holds that one.
    """
    try:
        yield
    except BaseException as error:
        folder = FAILURES / test
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(stages.model, folder / "model.onnx")
        calibration = {f"calibration_{name}": data for name, data in stages.feed.items()}
        np.savez(folder / "inputs.npz", **calibration, **arrays)
        report = {
            "first_stage_that_differs": stage,
            "march": stages.march,
            "blocks": list(blocks),
            "error": f"{type(error).__name__}: {error}"[:2000],
        }
        (folder / "failure.json").write_text(json.dumps(report, indent=1))
        raise
