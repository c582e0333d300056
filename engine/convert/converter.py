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
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
from pydantic import BaseModel

from engine.board import stored_times
from engine.chips import HB_COMPILE_MARCHES, March, load_chip
from engine.compile import CompiledModel
from engine.config import CalibrationParameters, Config
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
    SOURCE,
)
from engine.convert.original import OriginalTool, original_tool, tell_refusals
from engine.convert.pipeline import conversion
from engine.convert.runner import Hooks, Item, Run
from engine.convert.stages.calibrate import calibration_options
from engine.convert.tables import NodeRow, OutputRow, cosines, node_rows, output_rows, quant_info
from engine.convert.unmeasured import mark_unmeasured
from engine.facts.devices import on_bpu
from engine.ir import (
    UNSIGNED,
    calibration_nodes,
    calibration_of,
    read_calibration,
    refuse_overwriting,
    to_bytes,
    with_notice,
    write_atomically,
)
from engine.perf import Performance, estimate
from engine.place import Placement, Refusal
from engine.place.options import INT16
from engine.rulebook.marks import costly, told
from engine.simulate.tensors import describe, graph_inputs

if TYPE_CHECKING:
    from engine.calibrate import CalibrationData
    from engine.floats.compare import Distance

logger = logging.getLogger("engine.convert")

CALIBRATION_DATA_FOLDER = "calibration_data"
"""Folder below ``working_dir`` that ``debug_mode: dump_calibration_data`` writes."""
QUANT_INFO_SUFFIX = "_quant_info.json"

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


def convert(config: Config, original: OriginalTool | None = None, strict: bool = False) -> ConversionResult:
    """Convert a float model as ``config`` asks for; files appear in its ``working_dir``, each complete or not at all.

    Args:
        config: the conversion.
        original: the command of the original that the model will be shipped with; None for that of the march.
        strict: refuse what that command refuses, instead of warning.

    Raises:
        ConfigError: a parameter does not fit the model.
        UnsupportedError: a parameter or operator that is not built yet, or that the march does not have.
        ModelError: the model file cannot be read.
        CalibrationDataError: calibration data are missing or do not fit.
    """
    model = config.model_parameters
    tell_extrapolation(model.march)
    calibration_options(config)  # what excludes each other is said before anything is read
    work = Workspace(model.working_dir, model.output_model_file_prefix, saved=MODELS, march=model.march)
    refuse_overwriting([*work.paths(), _dump_folder(config)], _files_read(config))
    run = conversion(config, hooks=work)
    with work.phase(Phase.PREPARE, "prepare the onnx model"):
        tool = original or original_tool(model.march)
        tell_refusals(tool, run[SOURCE], strict, caffe=model.prototxt is not None)
        log_ends(run[SOURCE])
        _, data = run[ORIGINAL], run[DATA]
    dumped = _dump_folder(config)
    if data is not None and dumped is not None:
        from engine.debug.analysis.data import dump_samples

        work.files["calibration_data"] = dump_samples(data, dumped)
    with work.phase(Phase.OPTIMIZE, "optimize the onnx model"):
        log_renamed_outputs(run[ORIGINAL], run[OPTIMIZED])
        log_placement(run[PLACED])
        placement = run[PLACEMENT]
    with work.phase(Phase.CALIBRATE, "calibrate the model"):
        calibrated = run[CALIBRATED]
    with work.phase(Phase.QUANTIZE, "quantize the model"):
        _ = run[QUANTIZED]
        log_costly_rules(calibrated)
        log_idle_options(config.calibration_parameters, calibrated)
    with work.phase(Phase.COMPILE, f"compile the model with march {config.march.value}"):
        compiled = replace(run[COMPILED], parameters=parameters_as_text(config))
    if data is not None:
        with work.phase(Phase.COMPARE, "compare the calibrated and the quantized with the float model"):
            _ = run[COMPARISON], run[INTEGER_DISTANCES]
    comparison, integers = run[COMPARISON], run[INTEGER_DISTANCES]
    if data is not None:
        log_broken_outputs(integers, run, data)
    nodes = node_rows(compiled, calibrated, cosines(run[OPTIMIZED], comparison))
    work.write_compiled(compiled)  # last of the models: where it is, everything went well
    work.write(quant_info(compiled, calibrated, nodes), "quant_info", QUANT_INFO_SUFFIX)
    return work.result(compiled, placement, nodes, output_rows(comparison.outputs), output_rows(integers))


def _dump_folder(config: Config) -> Path | None:
    """Where calibration data are dumped, an older dump being replaced; None where that is not asked for."""
    model = config.model_parameters
    return None if model.debug_mode is None else model.working_dir / CALIBRATION_DATA_FOLDER


def _files_read(config: Config) -> list[Path | None]:
    """Files and folders that a conversion reads."""
    model, custom = config.model_parameters, config.custom_op
    registered: list[Path | None] = []
    if custom is not None and custom.custom_op_dir is not None:
        registered = [custom.custom_op_dir / file for file in custom.op_register_files]
    calibration = config.calibration_parameters
    data = [*calibration.cal_data_dir, calibration.bias_correction_order]
    return [model.onnx_model, model.prototxt, model.caffe_model, *data, *registered]


def log_placement(placement: Placement) -> None:
    """Log the inputs that are int16, and the requests that could not be honoured."""
    for node in placement.model.graph:
        found = [calibration_of(value) for value in node.inputs] if on_bpu(node) else []
        if any(calibration is not None and calibration.qtype == INT16 for calibration in found):
            logger.info("The input of node %s are set to : int16", node.name)
    for refusal in placement.refusals:
        logger.warning("Node %s: %s could not be honoured: %s", refusal.node, refusal.request, refusal.reason)


def tell_extrapolation(march: str) -> None:
    """Warn where rules and figures of ``march`` are those of another."""
    if remark := load_chip(march).extrapolation:
        logger.warning("march %s: %s", march, remark)


def log_ends(source: ir.Model) -> None:
    """Log names, types and shapes of a model's inputs and outputs."""
    for kind, infos in (("Input", describe(graph_inputs(source))), ("Output", describe(source.graph.outputs))):
        for info in infos:
            logger.info("%s %s", kind, info)


def log_renamed_outputs(original: ir.Model, optimized: ir.Model) -> None:
    """Warn of outputs that have another name from here on, because the tensor that they are has it in the original.

    Those that ``layer_out_dump`` adds stand behind them.
    """
    for before, after in zip(original.graph.outputs, optimized.graph.outputs, strict=False):
        if before.name != after.name:
            logger.warning("Output %s is called %s in the files, as in the original's", before.name, after.name)


def log_broken_outputs(distances: Mapping[str, Distance], run: Run, data: CalibrationData) -> None:
    """Warn of outputs that no longer say what the float model's do, and name the node where that begins."""
    from engine.debug.bisection.breaks import Break, broken_in_words, usual_break

    def find() -> Break | None:
        return usual_break(run[OPTIMIZED], run[CALIBRATED], run[QUANTIZED], data)

    for sentence in broken_in_words(distances, find):
        logger.warning("%s", sentence)


def log_idle_options(wanted: CalibrationParameters, calibrated: ir.Model) -> None:
    """Warn of options that changed nothing in this model."""
    found = [
        read_calibration(node)
        for node in calibration_nodes(calibrated)
        if node.inputs[0] is not None and node.inputs[0].const_value is None
    ]
    if wanted.per_channel and not any(each.thresholds.size > 1 for each in found):
        logger.warning("per_channel has no effect: no tensor of this model takes other thresholds in other channels")
    if "asymmetric" in wanted.optimization and not any(each.qtype == UNSIGNED for each in found):
        logger.warning("asymmetric has no effect: no tensor of this model became unsigned")


def log_costly_rules(calibrated: ir.Model) -> None:
    """Log the rules of the original that cost accuracy in this model, and what to do about them."""
    for rule, nodes in costly(calibrated).items():
        shown = f"{', '.join(nodes[:_MOST_NODES])}{' …' if len(nodes) > _MOST_NODES else ''}"
        remedy = f" With compatibility clean {rule.instead}." if rule.instead else ""
        remedy += f" {rule.advice}." if rule.advice else ""
        logger.warning("%s on %d nodes (%s): %s%s", told(rule), len(nodes), shown, rule.says, remedy)


def parameters_as_text(config: Config) -> dict[str, dict[str, str]]:
    """The parameters of ``config``, given or by default, by group, as a ``.bin`` keeps them."""
    return {
        group: {key: _as_text(getattr(parameters, key)) for key in type(parameters).model_fields}
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
        march: architecture; results for one that nothing was measured on have the names of the S100's files.
        models: by stage.
        timings: seconds per phase.
        files: written files.
    """

    folder: Path | None
    prefix: str
    saved: tuple[Item[ir.Model], ...]
    march: March
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
        """Keep a model."""
        if item in MODELS:
            self.models[item.name] = value

    def _save(self, name: str) -> None:
        if self.folder is None:
            return
        data = to_bytes(self.models[name])
        if self.march in HB_COMPILE_MARCHES and name == QUANTIZED.name:
            data = self._noticed("quantised model, ONNX behind this line", data)
        self.files[name] = write_atomically(self.folder / self._name_of(name), data)
        logger.info("Saving model: %s.", self.files[name].name)

    def _name_of(self, model: str) -> str:
        newer = self.march in HB_COMPILE_MARCHES and model == QUANTIZED.name
        return f"{self.prefix}_{model}_model.{'bc' if newer else 'onnx'}"

    @property
    def _container_suffix(self) -> str:
        return ".hbm" if self.march in HB_COMPILE_MARCHES else ".bin"

    def paths(self) -> list[Path]:
        """All files that a conversion writes."""
        if self.folder is None:
            return []
        models = [self._name_of(item.name) for item in self.saved]
        others = [f"{self.prefix}{suffix}" for suffix in (self._container_suffix, QUANT_INFO_SUFFIX)]
        return [self.folder / name for name in (*models, *others)]

    def write_compiled(self, compiled: CompiledModel) -> None:
        """Write the compiled model: a ``.bin``, or what stands for a ``.hbm``."""
        data = compiled.to_bytes()
        if self.march in HB_COMPILE_MARCHES:
            data = self._noticed("compiled model, ptqlab's .bin format behind this line", data)
        self.write(data, "bin", self._container_suffix)

    def _noticed(self, what: str, data: bytes) -> bytes:
        remark = load_chip(self.march).extrapolation
        march = f"{self.march}, {remark}" if remark else self.march
        text = f"{what}; march {march}; no file of the original toolchain"
        return with_notice(data, text)

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
            performance=estimate(compiled, stored_times(compiled.march)),
            placement=placement,
            nodes=mark_unmeasured(nodes, original, compiled.march),
            outputs=outputs,
            integer_outputs=integer_outputs,
            timings=self.timings,
            files=self.files,
        )
