"""``ptqlab bisect``: the first stage of a conversion that breaks its bound, and the first node inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.console import say

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

    from engine.convert.runner import Run
    from engine.debug.bisection.bisect import Bisection, Material, PairReport
    from engine.debug.bisection.stages import StageName
    from engine.debug.bisection.task import TaskMetric

EXIT_BAD = 1


def bisect(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The float ONNX model.")],
    config: Annotated[Path, typer.Option("--config", "-c", exists=True, dir_okay=False, help="Its configuration.")],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            exists=True,
            help="Folder INPUT/0.npy, …: inputs of original_float, as debug_mode dumps them; default: cal_data_dir.",
        ),
    ] = None,
    source_data: Annotated[
        Path | None,
        typer.Option("--source-data", exists=True, help="The same samples after your own preprocessing."),
    ] = None,
    compiled: Annotated[
        Path | None,
        typer.Option("--bin", exists=True, dir_okay=False, help="An existing .bin to use instead of a new one."),
    ] = None,
    foreign: Annotated[
        Path | None, typer.Option("--foreign", exists=True, dir_okay=False, help="Another quantised model to compare.")
    ] = None,
    dumps: Annotated[
        Path | None,
        typer.Option(
            "--dumps", exists=True, file_okay=False, help="Dumps of hrt_model_exec on a board: folder with 0/, 1/, …"
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels", exists=True, dir_okay=False, help="CSV or .npy; default: DATA/labels.csv if it exists."
        ),
    ] = None,
    metric: Annotated[str, typer.Option("--metric", help="With labels: top1, or your own module:function.")] = "top1",
    bound: Annotated[
        list[str] | None,
        typer.Option(
            "--bound", metavar="STAGE:BOUND=NUMBER", help="Bound such as quantized:sqnr=30 or bin:lsb=1; repeatable."
        ),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Maximum number of samples to run.")] = 4,
    minimal: Annotated[
        Path | None, typer.Option("--minimise", help="Folder for a one-node model that reproduces the fault.")
    ] = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="Also split the integer error of every node into its four parts.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run every stage, from the source model to the .bin, on the same inputs, and name the first bad one.

    Exit code 1 if a bound is broken.
    """
    from engine.debug.bisection.bisect import bisect as run
    from engine.debug.bisection.stages import parse_bounds

    material = _material(model, config, data, source_data, compiled, foreign, dumps, samples)
    task = _task(labels, metric, data, material)
    material = replace(material, task=task, bounds=parse_bounds(bound or ()))
    found = run(material)
    _show(found, as_json)
    if errors:
        _show_errors(material, as_json)
    bad = found.first_bad
    if bad is not None and minimal is not None:
        _write_minimal(bad, material, minimal)
    if bad is not None:
        raise typer.Exit(EXIT_BAD)


def _material(
    path: Path,
    config: Path,
    folder: Path | None,
    source_folder: Path | None,
    compiled: Path | None,
    foreign: Path | None,
    dumps: Path | None,
    count: int,
) -> Material:
    """All stages of a conversion, the samples to run, and what a board or another toolchain gave."""
    from engine.config import load_config
    from engine.convert import conversion
    from engine.convert.items import DATA, SOURCE
    from engine.debug.analysis.data import read_samples
    from engine.debug.bisection.bisect import Material
    from engine.debug.bisection.dumps import read_dumps
    from engine.debug.bisection.stages import StageName
    from engine.errors import ConfigError
    from engine.ir import load_model

    settings = load_config(config).of_model(path)
    if folder is not None and folder.resolve() in {
        given.resolve() for given in settings.calibration_parameters.cal_data_dir
    }:
        folder = None  # not yet inputs of original_float: the conversion reads these files
    run = conversion(settings)
    source, data = run[SOURCE], run[DATA]
    stages = _stages(run, compiled)
    samples = data if folder is None else folder
    if samples is None:
        raise ConfigError("--data: give samples; the configuration has no cal_data_dir either")
    feed = _first(read_samples(stages[StageName.ORIGINAL], samples), stages[StageName.ORIGINAL], count)
    if folder is not None and data is not None:
        _tell_other_data(read_samples(stages[StageName.ORIGINAL], data), feed)
    source_feed = None
    if source_folder is None:
        del stages[StageName.SOURCE]
    else:
        source_feed = _first(read_samples(source, source_folder), source, _samples(feed, stages[StageName.ORIGINAL]))
    if foreign is not None:
        stages[StageName.FOREIGN] = load_model(foreign)
    dumped = None if dumps is None else read_dumps(dumps, stages[StageName.BIN])
    return Material(stages, feed, source_feed, dumped)


def _tell_other_data(calibration: Mapping[str, NDArray[Any]], feed: Mapping[str, NDArray[Any]]) -> None:
    """Say where the samples are of another kind than the calibration data."""
    from engine.calibrate.data.doubts import other_distribution

    for name, samples in feed.items():
        doubt = other_distribution(calibration[name], samples, name) if name in calibration else None
        if doubt is not None:
            say(f"WARNING: {doubt}", err=True)


def _stages(run: Run, compiled: Path | None) -> dict[StageName, ir.Model]:
    """All stages of a conversion, in memory; the last one read from a file, the user's own where there is one."""
    from tempfile import TemporaryDirectory

    from engine.convert.items import CALIBRATED, COMPILED, OPTIMIZED, ORIGINAL, QUANTIZED, SOURCE
    from engine.debug.bisection.stages import StageName
    from engine.simulate.loaders import open_model

    with TemporaryDirectory() as temporary:
        file = compiled
        if file is None:
            file = Path(temporary) / "model.bin"
            run[COMPILED].save(file)
        last = open_model(file)
    return {
        StageName.SOURCE: run[SOURCE],
        StageName.ORIGINAL: run[ORIGINAL],
        StageName.OPTIMIZED: run[OPTIMIZED],
        StageName.CALIBRATED: run[CALIBRATED],
        StageName.QUANTIZED: run[QUANTIZED],
        StageName.BIN: last,
    }


def _first(feed: Mapping[str, NDArray[Any]], model: ir.Model, count: int) -> dict[str, NDArray[Any]]:
    """At most ``count`` samples, each as many rows as ``model`` takes at once."""
    from engine.ir import shape_of

    return {str(value.name): feed[str(value.name)][: count * shape_of(value)[0]] for value in model.graph.inputs}


def _samples(feed: Mapping[str, NDArray[Any]], model: ir.Model) -> int:
    from engine.ir import shape_of

    value = model.graph.inputs[0]
    return len(feed[str(value.name)]) // shape_of(value)[0]


def _task(labels: Path | None, metric: str, folder: Path | None, material: Material) -> TaskMetric | None:
    """The metric with labels of the samples; None where there are none."""
    from engine.debug.analysis.data import sample_names
    from engine.debug.bisection.stages import StageName
    from engine.debug.bisection.task import LABELS_FILE, TOP1, TaskMetric, open_score, read_labels
    from engine.errors import ConfigError

    if labels is None and folder is not None and (folder / LABELS_FILE).is_file():
        labels = folder / LABELS_FILE
    if labels is None:
        if metric != TOP1:
            raise ConfigError(f"--metric {metric}: needs --labels, or {LABELS_FILE} in the folder of the samples")
        return None
    model = material.stages[StageName.ORIGINAL]
    names = sample_names(model, folder or material.feed, _samples(material.feed, model))
    return TaskMetric(metric, open_score(metric), read_labels(labels, names))


def _show(found: Bisection, as_json: bool) -> None:
    import json
    from dataclasses import asdict

    bad = found.first_bad
    if as_json:
        pairs = [{**asdict(pair), "bad": pair.is_bad} for pair in found.pairs]
        first = None if bad is None else {"stage": bad.after, "node": bad.node, "finding": bad.finding}
        say(json.dumps({"first_bad": first, "pairs": pairs}, indent=2))
        return
    with_task = any(pair.metric is not None for pair in found.pairs)
    heading = f"{'stage':24}{'max abs':>12}{'SQNR dB':>10}{'cosine':>12}{'LSB':>6}"
    say(heading + (f"{'metric before':>15}{'after':>9}" if with_task else "") + "  finding")
    for pair in found.pairs:
        lsb = "-" if pair.lsb is None else str(pair.lsb)
        text = f"{pair.node}: {pair.finding}" if pair.is_bad else "keeps its bound"
        row = f"{f'{pair.before} -> {pair.after}':24}{pair.max_abs:12.4g}{pair.sqnr:10.2f}{pair.cosine:12.8f}{lsb:>6}"
        task = f"{pair.metric_before:15.4f}{pair.metric:9.4f}" if with_task else ""
        say(f"{row}{task}  {text}")
    if bad is None:
        say(f"every stage is within its bound{_next_step(found)}")
    else:
        say(f"first bad stage: {bad.after}, node {bad.node}: {bad.finding} (bound: {bad.bound})")


def _next_step(found: Bisection) -> str:
    """Where most accuracy is lost although no bound says that it is too much, and what to do about it."""
    after = {pair.after: pair for pair in found.pairs if pair.after in _WITH_NOISE}
    worst = min(after.values(), key=lambda pair: pair.sqnr, default=None)
    if worst is None or worst.sqnr >= GOOD_SQNR:
        return ""
    return (
        f"; {worst.after} loses most: SQNR {worst.sqnr:.1f} dB, cosine {worst.cosine:.6f}. "
        f"If that is too little, ask for more (--bound {worst.after}:sqnr={GOOD_SQNR:g}), find the nodes that lose it "
        "(hmct-debugger runall on the calibrated model), or let ptqlab tune choose int16 nodes"
    )


_WITH_NOISE = ("calibrated", "quantized")
"""Stages that quantise."""

GOOD_SQNR = 30.0
"""Decibels below which a next step is given: three percent of noise in the outputs."""


def _show_errors(material: Material, as_json: bool) -> None:
    """The error table on standard output; beside JSON on standard error."""
    from engine.debug.bisection.integer_error import error_table, integer_errors
    from engine.debug.bisection.stages import StageName

    stages = material.stages
    found = integer_errors(stages[StageName.CALIBRATED], stages[StageName.QUANTIZED], material.feed)
    say(error_table(found), err=as_json)


def _write_minimal(bad: PairReport, material: Material, folder: Path) -> None:
    """Write ``minimal.onnx`` and ``minimal.npz`` (inputs ``in:NAME``, ``expected``, ``actual``)."""
    import io

    import numpy as np

    from engine.debug.bisection.minimise import minimise
    from engine.ir import save_model, write_atomically

    case = minimise(bad, material)
    save_model(case.model, folder / "minimal.onnx")
    stream = io.BytesIO()
    inputs: dict[str, Any] = {f"in:{name}": array for name, array in case.inputs.items()}
    np.savez(stream, **inputs, expected=case.expected, actual=case.actual)
    write_atomically(folder / "minimal.npz", stream.getvalue())
    say(f"minimal case: {folder / 'minimal.onnx'}", err=True)
