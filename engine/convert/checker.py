"""A conversion without data: where nodes run, and how fast the model will be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx_ir as ir

from engine.chips import March
from engine.compile import CompileOptions
from engine.config import (
    CalibrationParameters,
    CompilerParameters,
    Config,
    InputParameters,
    InputSpec,
    ModelParameters,
    NodeInfo,
)
from engine.convert.converter import ConversionResult, Phase, Workspace, log_ends, log_placement, tell_extrapolation
from engine.convert.items import CALIBRATED, COMPILED, DATA, ORIGINAL, PLACED, PLACEMENT, QUANTIZED, SOURCE, SPECS
from engine.convert.original import OriginalTool, original_tool, tell_refusals
from engine.convert.pipeline import DEFAULTS, WITHOUT_DATA
from engine.convert.runner import Given, Run
from engine.convert.stages.source import READ
from engine.convert.tables import node_rows
from engine.frontend import load_network
from engine.ir import MARK_ON, shape_of
from engine.terms import CalibrationType, InputType, Layout

CHECK_FOLDER = Path(".hb_check")
"""Where the checker leaves its models."""


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
        fixed: values of inputs that are settings, by name.
    """

    march: str
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    resize: bool = False
    input_type: InputType = InputType.FEATUREMAP
    node_info: Mapping[str, NodeInfo] = field(default_factory=dict)
    compile: CompileOptions = field(default_factory=CompileOptions)
    prototxt: Path | None = None
    fixed: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


def check(
    model: Path,
    wanted: Draft,
    folder: Path | None = None,
    original: OriginalTool | None = None,
    strict: bool = False,
) -> ConversionResult:
    """Convert with fixed thresholds and without data, to see where nodes run and how fast the model will be.

    Args:
        model: an ONNX file, or a ``.caffemodel``.
        wanted: march, inputs and options.
        folder: where the calibrated and quantised models are left; ``None`` to write nothing.
        original: the command of the original that the model will be shipped with; None for that of the march.
        strict: refuse what that command refuses, instead of warning.

    Raises:
        UnsupportedError: an operator, version or option that cannot be converted.
        ModelError: the file cannot be read or is not valid.
        ConfigError: ``wanted`` does not fit the model.
    """
    work = Workspace(folder, model.stem, saved=(CALIBRATED, QUANTIZED), march=March(wanted.march))
    tell_extrapolation(wanted.march)
    with work.phase(Phase.PREPARE, "prepare the onnx model"):
        shapes = wanted.input_shapes
        source = load_network(model, shapes, prototxt=wanted.prototxt, resize=wanted.resize, fixed=wanted.fixed)
        tool = original or original_tool(wanted.march)
        tell_refusals(tool, source, strict, caffe=wanted.prototxt is not None)
        log_ends(source)
        specs = tuple(_drafted_input(value, wanted) for value in source.graph.inputs)
        given = {**DEFAULTS, SOURCE: Given(source), SPECS: Given(specs), DATA: Given(None)}
        run = Run(WITHOUT_DATA, _configuration(model.stem, wanted), given, work)
        _ = run[ORIGINAL]
    return _checked(run, work)


def check_configured(config: Config, calibrated: ir.Model | None = None) -> ConversionResult:
    """What :func:`check` does, for inputs and options as in ``config``; nothing is written, no data are read.

    Args:
        config: the configuration.
        calibrated: what an earlier conversion made of it: integers are rescaled where its thresholds differ, so that
            latency and traffic are those of that conversion. None, or one of another graph (:func:`is_of`), for
            equal thresholds everywhere.

    Raises:
        UnsupportedError, ModelError, ConfigError: as :func:`check`.
    """
    march = config.march
    work = Workspace(None, config.model_parameters.output_model_file_prefix, saved=(), march=march)
    tell_extrapolation(march.value)
    with work.phase(Phase.PREPARE, "prepare the onnx model"):
        run = Run((READ, *WITHOUT_DATA), config, {**DEFAULTS, DATA: Given(None)}, work)
        caffe = config.model_parameters.prototxt is not None
        tell_refusals(original_tool(march.value), run[SOURCE], strict=False, caffe=caffe)
        _ = run[ORIGINAL]
    if calibrated is not None and is_of(run[CALIBRATED], calibrated):
        run = run.replacing({CALIBRATED: Given(calibrated)})
    return _checked(run, work)


def is_of(draft: ir.Model, calibrated: ir.Model) -> bool:
    """Whether ``calibrated`` has the nodes of ``draft``, which was calibrated without data, on the same device."""
    return [_row(node) for node in draft.graph] == [_row(node) for node in calibrated.graph]


def _row(node: ir.Node) -> tuple[str | None, str, str]:
    return node.name, node.op_type, node.metadata_props.get(MARK_ON, "")


def _checked(run: Run, work: Workspace) -> ConversionResult:
    """The stages behind preparation."""
    with work.phase(Phase.OPTIMIZE, "optimize the onnx model"):
        log_placement(run[PLACED])
        placement = run[PLACEMENT]
    with work.phase(Phase.CALIBRATE, "calibrate the model"):
        calibrated = run[CALIBRATED]
    with work.phase(Phase.QUANTIZE, "quantize the model"):
        _ = run[QUANTIZED]
    with work.phase(Phase.COMPILE, f"compile the model with march {work.march.value}"):
        compiled = run[COMPILED]
    return work.result(compiled, placement, node_rows(compiled, calibrated, {}))


def _configuration(name: str, wanted: Draft) -> Config:
    """What the stages read of a draft. The name comes from a file, so it is not checked."""
    compiler = wanted.compile.model_dump()
    return Config.model_construct(
        model_parameters=ModelParameters.model_construct(
            march=March(wanted.march), output_model_file_prefix=name, node_info=dict(wanted.node_info)
        ),
        input_parameters=InputParameters.model_construct(input_type_train=(), input_layout_train=(), input_type_rt=()),
        calibration_parameters=CalibrationParameters(calibration_type=CalibrationType.SKIP),
        compiler_parameters=CompilerParameters.model_construct(**compiler, jobs=wanted.compile.jobs),
    )


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
