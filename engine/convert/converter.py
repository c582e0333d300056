"""A conversion from model file to ``.bin``: its phases with log lines, timings and checkpoints, and its result."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import onnx_ir as ir
from pydantic import BaseModel

from engine.compile import CompiledModel
from engine.config import Config
from engine.convert.items import (
    CALIBRATED,
    COMPARISON,
    COMPILED,
    DATA,
    INTEGER_DISTANCES,
    OPTIMIZED,
    ORIGINAL,
    PLACED,
    PLACEMENT,
    QUANTIZED,
)
from engine.convert.pipeline import conversion
from engine.convert.runner import Hooks, Item
from engine.convert.stages.calibrate import calibration_options
from engine.convert.tables import NodeRow, OutputRow, cosines, node_rows, output_rows, quant_info
from engine.convert.unmeasured import mark_unmeasured
from engine.debug.analysis.data import dump_samples
from engine.ir import calibration_of, save_model, write_atomically
from engine.parity import decided
from engine.perf import Performance, estimate
from engine.place import Placement, Refusal
from engine.place.chains import on_bpu
from engine.place.options import INT16

logger = logging.getLogger("engine.convert")

CALIBRATION_DATA_FOLDER = "calibration_data"
"""Folder below ``working_dir`` that ``debug_mode: dump_calibration_data`` writes."""
MODELS: tuple[Item[ir.Model], ...] = (ORIGINAL, OPTIMIZED, CALIBRATED, QUANTIZED)
"""The models of a conversion that users see."""


_MOST_NODES = 3
"""How many nodes a message names."""


class Phase(StrEnum):
    """The phases of a conversion: one stage or several, with one timing and one pair of log lines."""

    PREPARE = "prepare"
    OPTIMIZE = "optimize"
    CALIBRATE = "calibrate"
    COMPARE = "compare"
    QUANTIZE = "quantize"
    COMPILE = "compile"


@dataclass(frozen=True)
class ConversionResult:
    """What a conversion gives.

    Attributes:
        name: prefix of the files.
        models: the models by stage: ``original_float``, ``optimized_float``, ``calibrated``, ``quantized``.
        compiled: the content of the ``.bin``.
        performance: its estimated latency and traffic.
        placement: placement and the requests that could not be honoured.
        nodes: the node table.
        outputs: the output table: calibrated against float model, first sample; empty without calibration data.
        integer_outputs: the same of the quantised model, over all calibration samples (means; largest Chebyshev).
        timings: seconds per phase.
        files: written files by stage, ``bin`` and ``quant_info``.
    """

    name: str
    models: Mapping[str, ir.Model]
    compiled: CompiledModel
    performance: Performance
    placement: Placement
    nodes: tuple[NodeRow, ...]
    outputs: tuple[OutputRow, ...]
    integer_outputs: tuple[OutputRow, ...]
    timings: Mapping[Phase, float]
    files: Mapping[str, Path]

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Requests that could not be honoured."""
        return self.placement.refusals


def convert(config: Config) -> ConversionResult:
    """Convert a float model as ``config`` asks for; files appear in its ``working_dir``, each complete or not at all.

    Raises:
        ConfigError: a parameter does not fit the model.
        UnsupportedError: a parameter or operator that is not built yet, or that the march does not have.
        ModelError: the model file cannot be read.
        CalibrationDataError: calibration data are missing or do not fit.
    """
    model = config.model_parameters
    calibration_options(config)  # what excludes each other is said before anything is read
    work = Workspace(model.working_dir, model.output_model_file_prefix, saved=MODELS)
    run = conversion(config, hooks=work)
    with work.phase(Phase.PREPARE, "prepare the onnx model"):
        _, data = run[ORIGINAL], run[DATA]
    if data is not None and model.debug_mode is not None:
        work.files["calibration_data"] = dump_samples(data, model.working_dir / CALIBRATION_DATA_FOLDER)
    with work.phase(Phase.OPTIMIZE, "optimize the onnx model"):
        log_placement(run[PLACED])
        placement = run[PLACEMENT]
    with work.phase(Phase.CALIBRATE, "calibrate the model"):
        calibrated = run[CALIBRATED]
    with work.phase(Phase.QUANTIZE, "quantize the model"):
        _ = run[QUANTIZED]
        log_quirks(calibrated)
    with work.phase(Phase.COMPILE, f"compile the model with march {config.march.value}"):
        compiled = replace(run[COMPILED], parameters=parameters_as_text(config))
    if data is not None:
        with work.phase(Phase.COMPARE, "compare the calibrated and the quantized with the float model"):
            _ = run[COMPARISON], run[INTEGER_DISTANCES]
    comparison, integers = run[COMPARISON], run[INTEGER_DISTANCES]
    nodes = node_rows(compiled, calibrated, cosines(run[OPTIMIZED], comparison))
    work.write(compiled.to_bytes(), "bin", ".bin")  # last of the models: where it is, everything went well
    work.write(quant_info(compiled, calibrated, nodes), "quant_info", "_quant_info.json")
    return work.result(compiled, placement, nodes, output_rows(comparison.outputs), output_rows(integers))


def log_placement(placement: Placement) -> None:
    """Log the inputs that are int16, and the requests that could not be honoured."""
    for node in placement.model.graph:
        found = [calibration_of(value) for value in node.inputs] if on_bpu(node) else []
        if any(calibration is not None and calibration.qtype == INT16 for calibration in found):
            logger.info("The input of node %s are set to : int16", node.name)
    for refusal in placement.refusals:
        logger.warning("Node %s: %s could not be honoured: %s", refusal.node, refusal.request, refusal.reason)


def log_quirks(calibrated: ir.Model) -> None:
    """Log what of the original that costs accuracy, or rests on one network, decided something in this model."""
    for found, nodes in decided(calibrated).items():
        if found.remark:
            shown = f"{', '.join(nodes[:_MOST_NODES])}{' …' if len(nodes) > _MOST_NODES else ''}"
            remedy = f" With compatibility clean {found.instead}." if found.instead else ""
            logger.warning("%s on %d nodes (%s): %s%s", found.remark, len(nodes), shown, found.rule, remedy)


def parameters_as_text(config: Config) -> dict[str, dict[str, str]]:
    """The parameters that ``config`` gives, by group, as a ``.bin`` keeps them."""
    return {
        group: {key: _as_text(getattr(parameters, key)) for key in sorted(parameters.model_fields_set)}
        for group in type(config).model_fields
        if isinstance(parameters := getattr(config, group), BaseModel)
    }


def _as_text(value: object) -> str:
    if isinstance(value, tuple) and value and all(isinstance(item, int) for item in value):
        return "x".join(map(str, value))
    if isinstance(value, tuple):
        return ";".join(_as_text(item) for item in value)
    if isinstance(value, Mapping):
        return json.dumps({str(key): _as_text(item) for key, item in value.items()})
    return str(value.resolve() if isinstance(value, Path) else value)


@dataclass(frozen=True)
class Workspace(Hooks):
    """The folder of a conversion, what has been made so far, and how long that took.

    Attributes:
        folder: where files go; None to write nothing.
        prefix: of their names.
        saved: models that are written at the end of their phase; the rest of :data:`MODELS` is only kept.
        models: by stage.
        timings: seconds per phase.
        files: written files.
    """

    folder: Path | None
    prefix: str
    saved: tuple[Item[ir.Model], ...]
    models: dict[str, ir.Model] = field(default_factory=dict)
    timings: dict[Phase, float] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)

    @contextmanager
    def phase(self, phase: Phase, text: str) -> Iterator[None]:
        """Log and time what happens inside; its models are written where nothing was refused."""
        logger.info("Start to %s.", text)
        start = time.perf_counter()
        yield
        self.timings[phase] = time.perf_counter() - start
        logger.info("End to %s. (%.1f s)", text, self.timings[phase])
        for item in self.saved:
            if item.name in self.models and item.name not in self.files:
                self._save(item.name)

    def made(self, item: Item[Any], value: Any) -> None:
        """Remember a model."""
        if item in MODELS:
            self.models[item.name] = value

    def _save(self, name: str) -> None:
        if self.folder is None:
            return
        self.files[name] = save_model(self.models[name], self.folder / f"{self.prefix}_{name}_model.onnx")
        logger.info("Saving model: %s.", self.files[name].name)

    def write(self, content: bytes, kind: str, suffix: str) -> None:
        """Write another file of the conversion."""
        if self.folder is None:
            return
        self.files[kind] = write_atomically(self.folder / f"{self.prefix}{suffix}", content)
        logger.info("Saving: %s.", self.files[kind].name)

    def result(
        self,
        compiled: CompiledModel,
        placement: Placement,
        nodes: tuple[NodeRow, ...],
        outputs: tuple[OutputRow, ...] = (),
        integer_outputs: tuple[OutputRow, ...] = (),
    ) -> ConversionResult:
        """The result with everything that was made."""
        original = self.models[ORIGINAL.name]
        return ConversionResult(
            name=self.prefix,
            models=self.models,
            compiled=compiled,
            performance=estimate(compiled),
            placement=placement,
            nodes=mark_unmeasured(nodes, original, compiled.march),
            outputs=outputs,
            integer_outputs=integer_outputs,
            timings=self.timings,
            files=self.files,
        )
