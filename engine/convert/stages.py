"""The stages of a conversion in order, each with a timing and a checkpoint."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import onnx_ir as ir

from engine.calibrate import CalibrationData, apply_thresholds, calibration_tensors, run_calibration, to_signed
from engine.calibrate.corrections.bias import with_biases_of
from engine.calibrate.corrections.equalize import equalize
from engine.calibrate.forward.compare import Comparison, compare
from engine.calibrate.forward.rebatch import rebatch
from engine.compile import CompiledModel, CompileOptions, compile_model
from engine.compile.removal import remove_nodes
from engine.config import Config, InputSpec, NodeInfo
from engine.convert.requests import (
    calibration_options,
    compile_options,
    node_requests,
    open_data,
    parameters_as_text,
    placement_options,
)
from engine.convert.tables import NodeRow, OutputRow, cosines, node_rows, output_rows, quant_info
from engine.debug.analysis.data import dump_samples
from engine.errors import UnsupportedError
from engine.frontend import load_network, parse, preprocess
from engine.frontend.outputs import with_outputs
from engine.ir import CALIBRATION_OP, MARK_REASON, calibration_of, save_model, shape_of, write_atomically
from engine.ops.foreign.composite import PREPROCESS
from engine.optimize import optimize
from engine.perf import Performance, estimate
from engine.place import Placement, PlacementOptions, Refusal, decomposed, place
from engine.place.chains import on_bpu
from engine.place.options import INT16
from engine.quantize import quantize
from engine.terms import CalibrationType, InputType, Layout

logger = logging.getLogger("engine.convert")

NOT_IN_RUNTIME = frozenset(
    [
        "Compress",
        "Det",
        "Hardmax",
        "IsInf",
        "IsNaN",
        "MatMulInteger",
        "MaxUnpool",
        "Mean",
        "MeanVarianceNormalization",
        "NonMaxSuppression",
        "NonZero",
        "QuantizeLinear",
        "DequantizeLinear",
        "Unique",
        "Xor",
    ]
)
"""Operators that no march has and the CPU's runtime has not either."""
CALIBRATION_DATA_FOLDER = "calibration_data"
"""Folder below ``working_dir`` that ``debug_mode: dump_calibration_data`` writes."""
CHECK_FOLDER = Path(".hb_check")
"""Where the checker leaves its models."""


class Stage(StrEnum):
    """The stages of a conversion; names of timings and of log lines."""

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
        timings: seconds per stage.
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
    timings: Mapping[Stage, float]
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
    work = _Workspace(model.working_dir, model.output_model_file_prefix)
    march, options = config.march.value, calibration_options(config)

    with work.stage(Stage.PREPARE, "prepare the onnx model"):
        source, specs = parse(config)
        original = preprocess.insert(source, specs)
        data = None if options.calibration_type is CalibrationType.SKIP else open_data(config, source, specs)
    work.save(original, "original_float")
    if data is not None and model.debug_mode is not None:
        work.files["calibration_data"] = dump_samples(data, model.working_dir / CALIBRATION_DATA_FOLDER)
    with work.stage(Stage.OPTIMIZE, "optimize the onnx model"):
        optimized, requests = optimized_float(original, config)
        placement = place(optimized, march, requests)
        if model.layer_out_dump:
            optimized = with_outputs(optimized, calibration_tensors(placement.model))
            placement = place(optimized, march, requests)
        _log_placement(placement)
        refuse_without_bpu(placement.model)
        refuse_cpu_operators(placement.model)
    work.save(optimized, "optimized_float")
    with work.stage(Stage.CALIBRATE, "calibrate the model"):
        calibrated = run_calibration(optimized, placement.model, data, options)
        reference = with_biases_of(calibrated, optimized) if options.corrects_biases_in_turn else optimized
        calibrated = with_integer_biases(calibrated, optimized, data, config)
    work.save(calibrated, "calibrated")
    with work.stage(Stage.QUANTIZE, "quantize the model"):
        quantized = quantize(to_signed(calibrated), march)
    work.save(quantized, "quantized")
    with work.stage(Stage.COMPILE, f"compile the model with march {march}"):
        deployed = _deployed(quantized, calibrated, config)
        compiled = compile_model(deployed, march, compile_options(config), model.output_model_file_prefix)
        compiled = _without_ends(replace(compiled, parameters=parameters_as_text(config)), config)
    comparison, integers = Comparison({}, {}), {}
    if data is not None:
        from engine.tune.evaluation import integer_distances  # brings the simulator

        with work.stage(Stage.COMPARE, "compare the calibrated and the quantized with the float model"):
            comparison = compare(reference, calibrated, data.read(0, 1))
            integers = integer_distances(optimized, quantized, data)
    nodes = node_rows(compiled, calibrated, cosines(optimized, comparison))
    work.write(compiled.to_bytes(), "bin", ".bin")  # last of the models: where it is, everything went well
    work.write(quant_info(compiled, calibrated, nodes), "quant_info", "_quant_info.json")
    return work.result(compiled, placement, nodes, output_rows(comparison.outputs), output_rows(integers))


def optimized_float(original: ir.Model, config: Config) -> tuple[ir.Model, PlacementOptions]:
    """The optimised float model that ``config`` asks for, and what it asks of that model's placement.

    Args:
        original: model with preprocessing.
        config: march, requests by node, ``cross_layer_equalization``.

    Raises:
        UnsupportedError: a shape depends on the data.
        ConfigError: requests exclude each other.
    """
    optimized = optimize(original, config.march.value)
    if "cross_layer_equalization" in config.calibration_parameters.optimization:
        optimized, pairs = equalize(optimized)
        logger.info("Equalize channels of %d pairs of convolutions: cross_layer_equalization.", pairs)
    refuse_unknown_shapes(optimized)
    requests = placement_options(config, optimized)
    return decomposed(optimized, config.march.value, requests), requests


def with_integer_biases(
    calibrated: ir.Model, optimized: ir.Model, data: CalibrationData | None, config: Config
) -> ir.Model:
    """``calibrated``, or where ``config`` asks for ``integer_bias_correction``, a copy with such biases."""
    if data is None or "integer_bias_correction" not in config.calibration_parameters.optimization:
        return calibrated
    logger.info("Correct biases on the integer simulator: integer_bias_correction.")
    from engine.tune.integer_bias import correct_integer_biases  # brings the simulator

    return correct_integer_biases(calibrated, optimized, config.march.value, data)


def _deployed(quantized: ir.Model, calibrated: ir.Model, config: Config) -> ir.Model:
    """What the ``.bin`` holds: ``quantized``, made anew for ``input_batch`` samples where that is above 1."""
    batch = config.input_parameters.input_batch
    if batch == 1:
        return quantized
    logger.info("The .bin takes %d samples at once: input_batch.", batch)
    return quantize(to_signed(rebatch(calibrated, batch)), config.march.value)


@dataclass(frozen=True)
class Draft:
    """What a conversion without data is asked for.

    Attributes:
        march: BPU architecture.
        input_shapes: shapes by input name.
        resize: whether ``input_shapes`` may contradict the file.
        input_type: run-time format of all image inputs (four dimensions, as many channels as the format has); others,
            and all with ``featuremap``, are fed as they are.
        node_info: device and data types by node name.
        compile: compiler parameters.
        prototxt: structure of the model where it is a Caffe model.
    """

    march: str
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    resize: bool = False
    input_type: InputType = InputType.FEATUREMAP
    node_info: Mapping[str, NodeInfo] = field(default_factory=dict)
    compile: CompileOptions = field(default_factory=CompileOptions)
    prototxt: Path | None = None


def check(model: Path, wanted: Draft, folder: Path | None = None) -> ConversionResult:
    """Convert with fixed thresholds and without data, to see where nodes run and how fast the model will be.

    Args:
        model: an ONNX file, or a ``.caffemodel``.
        wanted: march, inputs and options.
        folder: where the calibrated and quantised models are left; ``None`` to write nothing.

    Raises:
        UnsupportedError: an operator, version or option that cannot be converted.
        ModelError: the file cannot be read or is not valid.
        ConfigError: ``wanted`` does not fit the model.
    """
    work = _Workspace(folder, model.stem)
    with work.stage(Stage.PREPARE, "prepare the onnx model"):
        source = load_network(model, wanted.input_shapes, prototxt=wanted.prototxt, resize=wanted.resize)
        original = preprocess.insert(source, [_drafted_input(value, wanted) for value in source.graph.inputs])
    work.keep(original, "original_float")
    with work.stage(Stage.OPTIMIZE, "optimize the onnx model"):
        optimized = optimize(original, wanted.march)
        refuse_unknown_shapes(optimized)
        requests = PlacementOptions(node_info=node_requests(wanted.node_info))
        optimized = decomposed(optimized, wanted.march, requests)
        placement = place(optimized, wanted.march, requests)
        _log_placement(placement)
        refuse_without_bpu(placement.model)
    work.keep(optimized, "optimized_float")
    with work.stage(Stage.CALIBRATE, "calibrate the model"):
        calibrated = apply_thresholds(placement.model, None)
    work.save(calibrated, "calibrated")
    with work.stage(Stage.QUANTIZE, "quantize the model"):
        quantized = quantize(calibrated, wanted.march)
    work.save(quantized, "quantized")
    with work.stage(Stage.COMPILE, f"compile the model with march {wanted.march}"):
        compiled = compile_model(quantized, wanted.march, wanted.compile, model.stem)
    return work.result(compiled, placement, node_rows(compiled, calibrated, {}))


def _drafted_input(value: ir.Value, wanted: Draft) -> InputSpec:
    """An image input of ``wanted.input_type`` where ``value`` can be one, else a feature map."""
    name, shape = str(value.name), shape_of(value)
    channels = 1 if wanted.input_type is InputType.GRAY else 3
    layout = next(
        (layout for layout, axis in _CHANNEL_AXIS.items() if len(shape) == 4 and shape[axis] == channels), None
    )
    if wanted.input_type is InputType.FEATUREMAP or layout is None:
        return InputSpec(name=name)
    train = _TRAINED_ON.get(wanted.input_type, InputType.RGB)
    return InputSpec(name=name, type_train=train, layout_train=layout, type_rt=wanted.input_type)


_CHANNEL_AXIS = {Layout.NCHW: 1, Layout.NHWC: 3}
_TRAINED_ON = {InputType.GRAY: InputType.GRAY, InputType.BGR: InputType.BGR, InputType.YUV444: InputType.YUV444}
"""``input_type_train`` of a draft per run-time format, where it is not rgb."""


def refuse_without_bpu(placed: ir.Model) -> None:
    """Refuse a model none of whose own nodes runs on the BPU (reference/operators.md, "Model-level errors").

    Raises:
        UnsupportedError: there is none.
    """
    own = [node for node in placed.graph if node.op_type not in (PREPROCESS, CALIBRATION_OP)]
    if not any(map(on_bpu, own)):
        reasons = "; ".join(
            f"{node.name} ({node.op_type}): {node.metadata_props.get(MARK_REASON)}" for node in own[:_MOST_REASONS]
        )
        raise UnsupportedError(
            "There is no node can execute on BPU in this model, please make sure the model has at least one "
            f"(Conv/Gemm/MatMul) node. On the CPU are: {reasons}{' …' if len(own) > _MOST_REASONS else ''}"
        )


_MOST_REASONS = 5
"""How many CPU nodes a message names."""


def refuse_cpu_operators(model: ir.Model) -> None:
    """Refuse a model with operators that the board's runtime does not have (reference/operators.md, "Refused").

    Raises:
        UnsupportedError: names their types.
    """
    found = sorted({node.op_type for node in model.graph} & NOT_IN_RUNTIME)
    if found:
        raise UnsupportedError(f"HorizonRT not support these cpu operators: {', '.join(found)}")


def refuse_unknown_shapes(optimized: ir.Model) -> None:
    """Refuse a model with a shape that depends on the data: nothing can be placed behind it.

    Raises:
        UnsupportedError: names the operators that the runtime lacks where there are some, else the tensor.
    """
    for node in optimized.graph:
        for value in node.outputs:
            if value.name and (value.shape is None or not value.shape.is_static()):
                refuse_cpu_operators(optimized)
                raise UnsupportedError(
                    f"tensor {value.name} of node {node.name} ({node.op_type}) has the shape {value.shape}, which "
                    "depends on the data; end the model before that node (output_nodes) and compute the rest outside"
                )


def _without_ends(compiled: CompiledModel, config: Config) -> CompiledModel:
    """``compiled`` without the nodes that ``remove_node_type`` and ``remove_node_name`` name."""
    wanted = config.model_parameters
    if not wanted.remove_node_name and not wanted.remove_node_type:
        return compiled
    removal = remove_nodes(compiled, wanted.remove_node_name, wanted.remove_node_type)
    for node in removal.removed:
        logger.info("Node %s (%s) is removed from the .bin; scale: %s", node.name, node.type, list(node.scales))
    for name in removal.skipped:
        logger.warning("Node %s is not adjacent to input or output. It can not be removed! Skipped!", name)
    for kind in sorted(set(wanted.remove_node_type) - {node.type for node in removal.removed}):
        logger.info("remove_node_type %s: no such node is adjacent to input or output.", kind)
    return removal.model


@dataclass(frozen=True)
class _Workspace:
    """The folder of a conversion (``None``: nothing is written), what has been made so far, and how long that took."""

    folder: Path | None
    prefix: str
    models: dict[str, ir.Model] = field(default_factory=dict)
    timings: dict[Stage, float] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)

    @contextmanager
    def stage(self, stage: Stage, text: str) -> Iterator[None]:
        """Log and time what happens inside."""
        logger.info("Start to %s.", text)
        start = time.perf_counter()
        yield
        self.timings[stage] = time.perf_counter() - start
        logger.info("End to %s. (%.1f s)", text, self.timings[stage])

    def keep(self, model: ir.Model, stage: str) -> None:
        """Remember the model of a stage."""
        self.models[stage] = model

    def save(self, model: ir.Model, stage: str) -> None:
        """Remember the model of a stage and write it."""
        self.keep(model, stage)
        if self.folder is None:
            return
        self.files[stage] = save_model(model, self.folder / f"{self.prefix}_{stage}_model.onnx")
        logger.info("Saving model: %s.", self.files[stage].name)

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
        return ConversionResult(
            name=self.prefix,
            models=self.models,
            compiled=compiled,
            performance=estimate(compiled),
            placement=placement,
            nodes=nodes,
            outputs=outputs,
            integer_outputs=integer_outputs,
            timings=self.timings,
            files=self.files,
        )


def _log_placement(placement: Placement) -> None:
    for node in placement.model.graph:
        found = [calibration_of(value) for value in node.inputs] if on_bpu(node) else []
        if any(calibration is not None and calibration.qtype == INT16 for calibration in found):
            logger.info("The input of node %s are set to : int16", node.name)
    for refusal in placement.refusals:
        logger.warning("Node %s: %s could not be honoured: %s", refusal.node, refusal.request, refusal.reason)
