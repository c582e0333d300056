"""Check and convert models, with the options and the log of the original hb_mapper."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.chips import HB_COMPILE_MARCHES, HB_MAPPER_MARCHES, March, load_chip
from engine.cli.common import command_app
from engine.cli.console import say
from engine.cli.logs import logged
from engine.cli.named import INPUT_SHAPE, FixedInputs, join_pairs, read_fixed, read_shapes
from engine.cli.tables import render
from engine.errors import ConfigError
from engine.terms import DEFAULT_OPTIMIZE_LEVEL, Layout, OptimizeLevel
from engine.version import installed_version

if TYPE_CHECKING:
    from engine.config import Config
    from engine.convert import ConversionResult, Draft, NodeRow, OutputRow
    from engine.convert.original import OriginalTool
    from engine.place import Refusal

MAKERTBIN_LOG = Path("hb_mapper_makertbin.log")
CHECKER_LOG = Path("hb_mapper_checker.log")
INFER_LOG = Path("hb_mapper_infer.log")

CHECKER_LEVEL = OptimizeLevel.O0
"""Level at which the original's checker compiles, for speed (docs/evidence/latency.md)."""

AsOriginal = Annotated[
    bool,
    typer.Option("--as-original", help="Refuse what the original refuses, such as opset 12, instead of warning."),
]

app = command_app("hb_mapper", __doc__, no_args_is_help=True)


class ModelType(StrEnum):
    """Format of the float model."""

    CAFFE = "caffe"
    ONNX = "onnx"


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command; ``arguments`` default to those of the process."""
    app(args=join_pairs(sys.argv[1:] if arguments is None else arguments))


def _for_mapper(march: March | None) -> March | None:
    """The marches of the original command."""
    if march in HB_COMPILE_MARCHES:
        raise typer.BadParameter(f"{march} is not one of {_MARCHES}; hb_compile converts for it")
    return march


_MARCHES = "|".join(march.value for march in HB_MAPPER_MARCHES)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"hb_mapper, version {installed_version()}")
        raise typer.Exit


@app.callback()
def hb_mapper(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Check and convert float models for the BPU."""


@app.command()
def makertbin(
    model_type: Annotated[ModelType, typer.Option("--model-type", help="Format of the float model.")],
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", exists=True, dir_okay=False, help="Parameters of the conversion, YAML."),
    ] = None,
    fast_perf: Annotated[
        bool, typer.Option("--fast-perf", help="Convert for the best performance, without data.")
    ] = False,
    model: Annotated[Path | None, typer.Option("--model", help="Float model, with --fast-perf.")] = None,
    proto: Annotated[Path | None, typer.Option("--proto", help="Caffe prototxt, with --fast-perf.")] = None,
    march: Annotated[
        March | None,
        typer.Option("--march", callback=_for_mapper, metavar=_MARCHES, help="BPU architecture, with --fast-perf."),
    ] = None,
    fix: FixedInputs = None,
    as_original: AsOriginal = False,
) -> None:
    """Convert a float model to a .bin file."""
    if fast_perf:
        _refuse_with_fast_perf(config, {"--model": model, "--march": march})
    else:
        _refuse_without_fast_perf(config, {"--model": model, "--proto": proto, "--march": march})
    with logged("makertbin", MAKERTBIN_LOG) as logger:
        _log_start(logger)
        path = config or _fast_perf_config(model_type, model, proto, march)
        _convert(path, model_type, logger, as_original, read_fixed(fix))


def _refuse_without_fast_perf(config: Path | None, others: dict[str, object]) -> None:
    if config is None:
        raise typer.BadParameter("is needed (or --fast-perf)", param_hint="--config")
    for name, value in others.items():
        if value is not None:
            raise typer.BadParameter("needs --fast-perf", param_hint=name)


def _refuse_with_fast_perf(config: Path | None, others: dict[str, object]) -> None:
    if config is not None:
        raise typer.BadParameter("cannot be combined with --fast-perf", param_hint="--config")
    for name, value in others.items():
        if value is None:
            raise typer.BadParameter("is needed with --fast-perf", param_hint=name)


def _fast_perf_config(model_type: ModelType, model: Path | None, proto: Path | None, march: March | None) -> Path:
    """The configuration that ``--fast-perf`` writes."""
    from engine.cli.vendor.fast_perf import write_config

    if model is None or march is None:
        raise ConfigError("--fast-perf needs --model and --march")
    _require_proto(model_type, proto)
    return write_config(model, proto, march.value)


def _convert(
    path: Path, model_type: ModelType, logger: logging.Logger, strict: bool, fixed: Mapping[str, tuple[float, ...]]
) -> None:
    from engine.config import load_config
    from engine.convert.original import HB_MAPPER

    config = load_config(path, newer_dialect=False).with_fixed_inputs(fixed)
    wanted = config.caffe_model if model_type is ModelType.CAFFE else config.onnx_model
    logger.info("Model: %s", wanted)
    run_conversion(config, logger, HB_MAPPER, strict)


def run_conversion(config: Config, logger: logging.Logger, tool: OriginalTool, strict: bool = False) -> None:
    """Convert as ``config`` asks for, and log the tables; ``strict``: refuse what the original's ``tool`` refuses."""
    from engine.convert import convert

    result = convert(config, tool, strict)
    logger.info("The converted model node information:\n%s", node_table(result.nodes))
    log_reasons(result.nodes, logger)
    if result.refusals:
        logger.warning("Requests that could not be honoured:\n%s", refusal_table(result.refusals))
    if result.outputs:
        logger.info("The quantized model output:\n%s", output_table(result.outputs))
        integers = output_table(result.integer_outputs, " (integer)", tool.integer_similarity)
        logger.info("The integer model output, all calibration samples:\n%s", integers)
    _log_performance(result, logger)
    logger.info("Convert to runtime bin file successfully!")
    logger.info("End Model Convert")


@app.command()
def checker(
    model_type: Annotated[ModelType, typer.Option("--model-type", help="Format of the float model.")],
    march: Annotated[March, typer.Option("--march", callback=_for_mapper, metavar=_MARCHES, help="BPU architecture.")],
    model: Annotated[Path, typer.Option("--model", exists=True, dir_okay=False, help="Float model file.")],
    proto: Annotated[Path | None, typer.Option("--proto", help="Caffe prototxt file.")] = None,
    input_shape: Annotated[
        list[str] | None,
        typer.Option(INPUT_SHAPE, metavar="NAME SHAPE", help="Shape of an input, as data 1x3x224x224; repeatable."),
    ] = None,
    fix: FixedInputs = None,
    output: Annotated[Path | None, typer.Option("--output", hidden=True)] = None,
    as_original: AsOriginal = False,
) -> None:
    """Show where each operator of a float model will run and how fast the model will be."""
    with logged("checker", CHECKER_LOG) as logger:
        _log_start(logger)
        if output is not None:
            logger.warning("--output has no effect; the log is in %s", CHECKER_LOG)
        from engine.compile import CompileOptions
        from engine.convert import Draft
        from engine.convert.original import HB_MAPPER

        _require_proto(model_type, proto)
        shapes, options = read_shapes(input_shape), CompileOptions(optimize_level=CHECKER_LEVEL)
        fixed = read_fixed(fix)
        draft = Draft(march.value, shapes, resize=True, prototxt=proto, compile=options, fixed=fixed)
        run_check(model, draft, logger, HB_MAPPER, as_original)


def _require_proto(model_type: ModelType, proto: Path | None) -> None:
    """A prototxt belongs to Caffe models, and to them only."""
    if (model_type is ModelType.CAFFE) != (proto is not None):
        verb = "is needed with" if proto is None else "does not go with"
        raise ConfigError(f"--proto {verb} --model-type {model_type.value}")


def run_check(model: Path, draft: Draft, logger: logging.Logger, tool: OriginalTool, strict: bool = False) -> None:
    """Check ``model`` and log the table; ``strict``: refuse what the original's ``tool`` refuses."""
    from engine.convert import CHECK_FOLDER, check, refuse_bare_rectifiers, refuse_cpu_operators

    logger.info("Start model checking....")
    result = check(model, draft, CHECK_FOLDER, tool, strict)
    refuse_bare_rectifiers(result.models["calibrated"], load_chip(draft.march))
    refuse_cpu_operators(result.models["quantized"])
    logger.info("The converted model node information:\n%s", node_table(result.nodes, compared=False))
    log_reasons(result.nodes, logger)
    _log_performance(result, logger)
    _log_usual_performance(result, draft, logger)
    logger.info("ONNX model output num : %d", len(result.compiled.model.graph.outputs))
    logger.info("End model checking....")


def log_reasons(rows: tuple[NodeRow, ...], logger: logging.Logger) -> None:
    """A line per node of the network that runs on the CPU: why, and what to change."""
    from engine.ops.core.reasons import sentence
    from engine.place.hints import hint_for

    for row in rows:
        if row.reason is not None:
            why, hint = sentence(row.reason), hint_for(row.type, row.reason)
            logger.warning("Node %s (%s) runs on the CPU: %s. Remedy: %s.", row.node, row.type, why, hint)


@app.command()
def infer(
    config: Annotated[
        Path, typer.Option("--config", "-c", exists=True, dir_okay=False, help="YAML file of the conversion.")
    ],
    model_file: Annotated[
        Path,
        typer.Option("--model-file", exists=True, dir_okay=False, help="A model of the conversion, .onnx or .bin."),
    ],
    model_type: Annotated[ModelType, typer.Option("--model-type", help="Format of the float model.")],
    image_file: Annotated[
        list[str],
        typer.Option(
            "--image-file",
            metavar="NAME FILE",
            help="Input name and its file, calibration data or an image; repeatable.",
        ),
    ],
    output_dir: Annotated[Path, typer.Option("--output-dir", file_okay=False, help="Folder of the outputs.")],
    input_layout: Annotated[
        Layout | None,
        typer.Option("--input-layout", help="Required layout of the model's image inputs; default: any."),
    ] = None,
) -> None:
    """Run a model of a conversion on data in the format of calibration data; write one file per output."""
    with logged("infer", INFER_LOG) as logger:
        from engine.cli.vendor.infer import InferRequest, run_infer

        _log_start(logger)
        files = dict(map(parse_image_file, image_file))
        run_infer(
            InferRequest(config, model_file, model_type is ModelType.CAFFE, files, input_layout, output_dir), logger
        )


def parse_image_file(words: str) -> tuple[str, Path]:
    """``"data image.bin"`` to name and file.

    Raises:
        ConfigError: there is one word only.
    """
    name, _, file = words.partition(" ")
    if not name or not file:
        raise ConfigError(f"--image-file {words}: give the name of an input and its file")
    return name, Path(file)


def node_table(rows: tuple[NodeRow, ...], compared: bool = True) -> str:
    """The node table; ``compared``: with similarities and thresholds. Remarks have a column where there are some."""
    headers = ["Node", "ON", "Subgraph", "Type"]
    cells = [[row.node, row.on, "--" if row.subgraph is None else f"id({row.subgraph})", row.type] for row in rows]
    if compared:
        headers += ["Cosine Similarity", "Threshold", "DataType"]
        for line, row in zip(cells, rows, strict=True):
            line += [_number(row.cosine, ".6f"), _significant(row.threshold), row.data_type]
    else:
        headers += ["DataType"]
        for line, row in zip(cells, rows, strict=True):
            line += [row.data_type]
    if any(row.remarks for row in rows):
        headers += ["Remark"]
        for line, row in zip(cells, rows, strict=True):
            line += [row.remarks]
    return render(headers, cells, frozenset({"Cosine Similarity", "Threshold"}))


def refusal_table(refusals: tuple[Refusal, ...]) -> str:
    """Requests about nodes that could not be honoured, with reasons."""
    return render(["Node", "Request", "Reason"], [[each.node, each.request, each.reason] for each in refusals])


def output_table(rows: tuple[OutputRow, ...], remark: str = "", similarity: str = "Cosine Similarity") -> str:
    """The output table; ``remark`` is added to each name, ``similarity`` is the heading of the cosines."""
    headers = ["Output", similarity, "L1 Distance", "L2 Distance", "Chebyshev Distance"]
    cells = []
    for row in rows:
        distance = row.distance
        numbers = (distance.cosine, distance.l1, distance.l2, distance.chebyshev)
        cells.append([row.name + remark, *(_number(number, ".6f") for number in numbers)])
    return render(headers, cells, frozenset(headers[1:]))


def _number(value: float | None, form: str) -> str:
    return "--" if value is None else format(value, form)


def _significant(value: float | None) -> str:
    """Six significant digits and no more than six decimals, as the original prints thresholds: 54.5338, 0.009648."""
    return "--" if value is None else str(float(format(round(value, 6), ".6g")))


def _log_start(logger: logging.Logger) -> None:
    logger.info("Start hb_mapper....")
    logger.info("hb_mapper version %s", installed_version())


def _log_performance(result: ConversionResult, logger: logging.Logger) -> None:
    """A line per BPU subgraph, as the original logs them, and their sum."""
    found = result.performance
    for part in found.subgraphs:
        fps, traffic = 1e6 * found.frames / part.latency_us, part.loaded_bytes + part.stored_bytes
        logger.info("FPS=%.2f, latency = %.1f us, DDR = %d bytes   (%s)", fps, part.latency_us, traffic, part.name)
    if len(found.subgraphs) > 1:
        logger.info("All BPU subgraphs: %.1f us, %d bytes, %.2f FPS", found.latency_us, found.ddr_bytes, found.fps)
    if found.cpu_nodes:
        names = ", ".join(f"{name} ({kind})" for name, kind in found.cpu_nodes)
        logger.info("Not included, because they run on the CPU: %s", names)


def _log_usual_performance(result: ConversionResult, draft: Draft, logger: logging.Logger) -> None:
    """The sum of BPU subgraphs at the level that makertbin has by default, where ``draft`` has another one."""
    from engine.compile import compile_model
    from engine.perf import estimate

    level = draft.compile.optimize_level
    if level is DEFAULT_OPTIMIZE_LEVEL:
        return
    options = draft.compile.model_copy(update={"optimize_level": DEFAULT_OPTIMIZE_LEVEL})
    found = estimate(compile_model(result.models["quantized"], draft.march, options))
    logger.info("These figures are for optimize_level %s, at which the original's checker compiles.", level.value)
    text = "With %s, the default of makertbin, all BPU subgraphs take %.1f us, %d bytes, %.2f FPS"
    logger.info(text, DEFAULT_OPTIMIZE_LEVEL.value, found.latency_us, found.ddr_bytes, found.fps)
