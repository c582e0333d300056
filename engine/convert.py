"""The conversion runner: the stages in order, each with a timing and a checkpoint, and the tables that users read."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import onnx_ir as ir
from pydantic import BaseModel, ValidationError

from engine.calibrate import (
    METHODS,
    SEARCHES,
    CalibrationOptions,
    FolderData,
    apply_thresholds,
    calibration_tensors,
    open_folders,
    run_calibration,
    to_signed,
)
from engine.calibrate.compare import Comparison, Distance, compare
from engine.calibrate.equalize import equalize
from engine.compile import CompiledModel, CompileOptions, compile_model
from engine.compile.partition import CPU_OPS, is_border_copy
from engine.compile.removal import remove_nodes
from engine.config import Config, InputSpec, NodeInfo, check_implemented
from engine.debug.data import dump_samples
from engine.errors import ConfigError, ModelError, UnsupportedError
from engine.frontend import load, parse, preprocess
from engine.frontend.outputs import with_outputs
from engine.ir import (
    MARK_REASON,
    before_calibration,
    calibration_nodes,
    read_calibration,
    save_model,
    shape_of,
    write_atomically,
)
from engine.optimize import optimize
from engine.perf import Performance, estimate
from engine.place import NodeTypes, Placement, PlacementOptions, Refusal, place
from engine.quantize import quantize
from engine.terms import Device, InputType, Layout

logger = logging.getLogger(__name__)

ADDED_NODE = "added by the conversion where a float tensor changes its layout or rank"
"""Reason of CPU nodes that the float network does not have."""
CALIBRATION_SWITCHES = (
    "asymmetric",
    "bias_correction",
    "order_independent_kl",
    "mse_thresholds",
    "nodewise_methods",
    "adaptive_rounding",
)
"""Options of ``optimization`` that are fields of :class:`CalibrationOptions`."""

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
class NodeRow:
    """One operator of the converted network.

    Attributes:
        node: name.
        on: ``BPU`` or ``CPU``.
        subgraph: number of its BPU subgraph; ``None`` on the CPU.
        type: operator of the quantised graph.
        cosine: similarity of its output in the calibrated to that in the float model, on the first calibration sample;
            ``None`` where there are no data or no such tensor.
        threshold: largest calibration threshold of its first input; ``None`` on the CPU.
        data_type: type of its first input: ``int8``, ``int16`` or ``float``.
        reason: why it runs on the CPU; empty on the BPU.
    """

    node: str
    on: str
    subgraph: int | None
    type: str
    cosine: float | None
    threshold: float | None
    data_type: str
    reason: str = ""


@dataclass(frozen=True)
class OutputRow:
    """How far an output of the calibrated model is from the float model's, on the first calibration sample."""

    name: str
    distance: Distance


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
        outputs: the output table; empty without calibration data.
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
    check_implemented(config, [method.value for method in (*METHODS, *SEARCHES)])
    model = config.model_parameters
    work = _Workspace(model.working_dir, model.output_model_file_prefix)
    march = config.march.value

    with work.stage(Stage.PREPARE, "prepare the onnx model"):
        source, specs = parse(config)
        original = preprocess.insert(source, specs)
        data = open_data(config, source, specs)
    work.save(original, "original_float")
    if data is not None and model.debug_mode is not None:
        work.files["calibration_data"] = dump_samples(data, model.working_dir / CALIBRATION_DATA_FOLDER)
    with work.stage(Stage.OPTIMIZE, "optimize the onnx model"):
        optimized = optimize(original, march)
        if "cross_layer_equalization" in config.calibration_parameters.optimization:
            optimized, pairs = equalize(optimized)
            logger.info("Equalize channels of %d pairs of convolutions: cross_layer_equalization.", pairs)
        placement = place(optimized, march, placement_options(config, optimized))
        if model.layer_out_dump:
            optimized = with_outputs(optimized, calibration_tensors(placement.model))
            placement = place(optimized, march, placement_options(config, optimized))
        _log_placement(placement)
    work.save(optimized, "optimized_float")
    with work.stage(Stage.CALIBRATE, "calibrate the model"):
        calibrated = run_calibration(optimized, placement.model, data, calibration_options(config))
        if data is not None and "integer_bias_correction" in config.calibration_parameters.optimization:
            logger.info("Correct biases on the integer simulator: integer_bias_correction.")
            from engine.tune.integer_bias import correct_integer_biases  # brings the simulator

            calibrated = correct_integer_biases(calibrated, optimized, march, data)
    work.save(calibrated, "calibrated")
    with work.stage(Stage.QUANTIZE, "quantize the model"):
        quantized = quantize(to_signed(calibrated), march)
    work.save(quantized, "quantized")
    refuse_cpu_operators(quantized)
    with work.stage(Stage.COMPILE, f"compile the model with march {march}"):
        compiled = compile_model(quantized, march, compile_options(config), model.output_model_file_prefix)
        compiled = _without_ends(replace(compiled, parameters=parameters_as_text(config)), config)
        work.write(compiled.to_bytes(), "bin", ".bin")
    with work.stage(Stage.COMPARE, "compare the calibrated with the float model"):
        comparison = Comparison({}, {}) if data is None else compare(optimized, calibrated, data.read(0, 1))
    nodes = node_rows(compiled, calibrated, _cosines(optimized, comparison))
    work.write(_quant_info(compiled, calibrated, nodes), "quant_info", "_quant_info.json")
    outputs = tuple(OutputRow(name, distance) for name, distance in comparison.outputs.items())
    return work.result(compiled, placement, nodes, outputs)


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
        source = load(model, wanted.input_shapes, prototxt=wanted.prototxt, resize=wanted.resize)
        original = preprocess.insert(source, [_drafted_input(value, wanted) for value in source.graph.inputs])
    work.keep(original, "original_float")
    with work.stage(Stage.OPTIMIZE, "optimize the onnx model"):
        optimized = optimize(original, wanted.march)
        placement = place(optimized, wanted.march, PlacementOptions(node_info=node_requests(wanted.node_info)))
        _log_placement(placement)
    work.keep(optimized, "optimized_float")
    with work.stage(Stage.CALIBRATE, "calibrate the model"):
        calibrated = apply_thresholds(placement.model, None)
    work.save(calibrated, "calibrated")
    with work.stage(Stage.QUANTIZE, "quantize the model"):
        quantized = quantize(calibrated, wanted.march)
    work.save(quantized, "quantized")
    with work.stage(Stage.COMPILE, f"compile the model with march {wanted.march}"):
        compiled = compile_model(quantized, wanted.march, wanted.compile, model.stem)
    return work.result(compiled, placement, node_rows(compiled, calibrated, {}), ())


def refuse_cpu_operators(quantized: ir.Model) -> None:
    """Refuse a model with operators that the board's runtime does not have (OPERATORS.md, "Refused").

    Raises:
        UnsupportedError: names their types.
    """
    found = sorted({node.op_type for node in quantized.graph} & NOT_IN_RUNTIME)
    if found:
        raise UnsupportedError(f"HorizonRT not support these cpu operators: {', '.join(found)}")


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
    return removal.model


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


def node_requests(node_info: Mapping[str, NodeInfo]) -> dict[str, NodeTypes]:
    """``node_info`` as the placement takes it."""
    return {
        name: NodeTypes(
            on=info.on and info.on.value,
            input_type=info.input_type and info.input_type.value,
            input_types={index: kind.value for index, kind in info.input_types.items()},
            output_type=info.output_type and info.output_type.value,
        )
        for name, info in node_info.items()
    }


def placement_options(config: Config, optimized: ir.Model) -> PlacementOptions:
    """What ``config`` asks of the placement; options by operator type become requests for all nodes of that type.

    Raises:
        ConfigError: both output types are asked for.
    """
    requests = node_requests(config.model_parameters.node_info)
    for name, kind in config.model_parameters.set_node_data_type.items():
        requests.setdefault(name, NodeTypes(output_type=kind.value))
    options = config.calibration_parameters.optimization
    for option in options:
        for node in optimized.graph:
            side = option.removeprefix(f"set_{node.op_type}_")
            if side == "input_int16":
                requests.setdefault(str(node.name), NodeTypes(input_type="int16"))
            elif side == "output_int16":
                requests.setdefault(str(node.name), NodeTypes(output_type="int16"))
    output_types = [kind for kind in ("int8", "int16") if f"set_model_output_{kind}" in options]
    if len(output_types) > 1:
        raise ConfigError("calibration_parameters.optimization: set_model_output_int8 and _int16 exclude each other")
    return PlacementOptions(
        node_info=requests,
        run_on_cpu=frozenset(config.calibration_parameters.run_on_cpu),
        run_on_bpu=frozenset(config.calibration_parameters.run_on_bpu) | _run_fast(config, optimized),
        output_type=output_types[0] if output_types else None,
    )


def _run_fast(config: Config, optimized: ir.Model) -> frozenset[str]:
    """Nodes that option ``run_fast`` sends to the BPU: all that can run there, save those that are asked elsewhere."""
    if "run_fast" not in config.calibration_parameters.optimization:
        return frozenset()
    placed = {name for name, info in config.model_parameters.node_info.items() if info.on is not None}
    names = {str(node.name) for node in optimized.graph} - placed - set(config.calibration_parameters.run_on_cpu)
    refused = place(optimized, config.march.value, PlacementOptions(run_on_bpu=frozenset(names))).refusals
    return frozenset(names - {refusal.node for refusal in refused})


def calibration_options(config: Config) -> CalibrationOptions:
    """How ``config`` wants thresholds to be chosen.

    Raises:
        ConfigError: options exclude each other.
    """
    given = config.calibration_parameters
    try:
        return CalibrationOptions(
            calibration_type=given.calibration_type,
            max_percentile=given.max_percentile,
            per_channel=given.per_channel,
            **{name: name in given.optimization for name in CALIBRATION_SWITCHES},
        )
    except ValidationError as error:
        reasons = "; ".join(str(detail["msg"]) for detail in error.errors())
        raise ConfigError(f"calibration_parameters.optimization: {reasons}") from error


def compile_options(config: Config) -> CompileOptions:
    """The ``compiler_parameters`` of a conversion."""
    given = config.compiler_parameters
    return CompileOptions(
        optimize_level=given.optimize_level,
        compile_mode=given.compile_mode,
        core_num=given.core_num,
        debug=given.debug,
        input_source=given.input_source,
        max_time_per_fc=given.max_time_per_fc,
        jobs=given.jobs,
    )


def node_rows(compiled: CompiledModel, calibrated: ir.Model, cosines: Mapping[str, float]) -> tuple[NodeRow, ...]:
    """The node table: the operators of the network in running order, without the copies at borders.

    Args:
        compiled: the compiled model.
        calibrated: the calibrated model that it was made from.
        cosines: similarity by node and by float tensor.
    """
    thresholds = {
        before_calibration(node.outputs[0]).name: float(read_calibration(node).thresholds.max(initial=0))
        for node in calibration_nodes(calibrated)
    }
    reasons = {str(node.name): node.metadata_props.get(MARK_REASON, "") for node in calibrated.graph}
    rows = []
    subgraph = -1
    for segment in compiled.segments:
        subgraph += segment.device is Device.BPU
        for node in segment.nodes:
            if node.op_type in CPU_OPS or is_border_copy(node):
                continue
            on_bpu = segment.device is Device.BPU
            rows.append(
                NodeRow(
                    node=str(node.name),
                    on=segment.device.value,
                    subgraph=subgraph if on_bpu else None,
                    type=node.op_type,
                    cosine=cosines.get(str(node.name), cosines.get(float_name(node.outputs[0]))),
                    threshold=thresholds.get(float_name(_behind_copies(node.inputs[0]))) if on_bpu else None,
                    data_type=_data_type(node) if on_bpu else "float",
                    reason="" if on_bpu else reasons.get(str(node.name)) or ADDED_NODE,
                )
            )
    return tuple(rows)


def float_name(value: ir.Value) -> str:
    """Name of the float tensor that ``value`` of a quantised graph stands for."""
    return (value.name or "").removesuffix("_quantized").removesuffix("_calibrated")


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
        outputs: tuple[OutputRow, ...],
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
            timings=self.timings,
            files=self.files,
        )


def open_data(config: Config, source: ir.Model, specs: tuple[InputSpec, ...]) -> FolderData | None:
    """The calibration data of ``config``; ``None`` where its method needs none and none are given."""
    calibration = config.calibration_parameters
    if not calibration.calibration_type.needs_data and not calibration.cal_data_dir:
        return None
    data = open_folders(
        source, specs, calibration.cal_data_dir, calibration.cal_data_type, preprocess_on=calibration.preprocess_on
    )
    logger.info("There are %d samples in the calibration data set.", len(data))
    for doubt in data.doubts():
        logger.warning("%s.", doubt)
    for file, md5 in data.first_files().items():
        logger.info("md5 of the first calibration file %s: %s", file, md5)
    return data


def _log_placement(placement: Placement) -> None:
    for refusal in placement.refusals:
        logger.warning("Node %s: %s could not be honoured: %s", refusal.node, refusal.request, refusal.reason)


def _cosines(optimized: ir.Model, comparison: Comparison) -> dict[str, float]:
    """Similarities by name of a node, and by name of the tensor for quantised nodes that have no float node's name."""
    producers = {str(value.name): str(node.name) for node in optimized.graph for value in node.outputs}
    tensors = {tensor: comparison.nodes[node] for tensor, node in producers.items() if node in comparison.nodes}
    return {**tensors, **comparison.nodes}


def _behind_copies(value: ir.Value | None) -> ir.Value:
    """The tensor that ``value`` is, layout changes at borders looked through."""
    if value is None:
        raise ModelError("the first input of a quantised node is missing")
    producer = value.producer()
    return value if producer is None or not is_border_copy(producer) else _behind_copies(producer.inputs[0])


def _data_type(node: ir.Node) -> str:
    dtype = _behind_copies(node.inputs[0]).dtype
    return "int8" if dtype is None else str(dtype.numpy().name)


def _quant_info(compiled: CompiledModel, calibrated: ir.Model, rows: tuple[NodeRow, ...]) -> bytes:
    """Per node: type, inputs, outputs, thresholds by tensor, similarity; the ``*_quant_info.json`` file."""
    thresholds = {
        str(before_calibration(node.outputs[0]).name): read_calibration(node).thresholds.tolist()
        for node in calibration_nodes(calibrated)
    }
    nodes = {str(node.name): node for node in compiled.model.graph}
    content = {}
    for row in rows:
        node = nodes[row.node]
        read = [value for value in node.inputs if value is not None and value.const_value is None]
        inputs = [float_name(_behind_copies(value)) for value in read]
        outputs = [float_name(value) for value in node.outputs]
        content[row.node] = {
            "type": row.type,
            "inputs": inputs,
            "outputs": outputs,
            "thresholds": {name: thresholds[name] for name in (*inputs, *outputs) if name in thresholds},
            "cosine_similarity": row.cosine,
        }
    return json.dumps(content, indent=2).encode()
