"""``ptqlab bisect``: the first stage of a conversion that breaks its bound, and the first node inside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

    from engine.config import Config
    from engine.debug.bisect import Bisection, PairReport, StageName

EXIT_BAD = 1


def bisect(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The float ONNX model.")],
    config: Annotated[Path, typer.Option("--config", "-c", exists=True, dir_okay=False, help="Its configuration.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", exists=True, help="Folder INPUT/0.npy, ...: what original_float takes; else cal_data."),
    ] = None,
    source_data: Annotated[
        Path | None,
        typer.Option("--source-data", exists=True, help="The same samples after your own preprocessing."),
    ] = None,
    foreign: Annotated[
        Path | None, typer.Option("--foreign", exists=True, dir_okay=False, help="A quantised model to compare too.")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Most samples to run.")] = 4,
    minimal: Annotated[
        Path | None, typer.Option("--minimise", help="Folder for a one-node model that still shows the fault.")
    ] = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="Also split every node's integer error into its four parts.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run source, original, optimized, calibrated, quantized and .bin on your inputs; exit 1 if a bound is broken."""
    from engine.config import load_config
    from engine.debug.bisect import bisect as run
    from engine.debug.data import read_samples

    settings = load_config(config)
    stages, feed = _stages(model, settings, foreign, data, samples)
    source_feed = None
    if source_data is not None:
        count = min(samples, len(next(iter(feed.values()))))
        source_feed = read_samples(next(iter(stages.values())), source_data, count)
    else:
        stages.pop(next(iter(stages)))
    found = run(stages, feed, source_feed)
    _show(found, as_json)
    if errors:
        _show_errors(stages, feed, as_json)
    bad = found.first_bad
    if bad is not None and minimal is not None:
        _write_minimal(bad, stages, feed, source_feed, minimal)
    if bad is not None:
        raise typer.Exit(EXIT_BAD)


def _stages(
    path: Path, config: Config, foreign: Path | None, folder: Path | None, count: int
) -> tuple[dict[StageName, ir.Model], dict[str, NDArray[Any]]]:
    """All stages of a conversion in memory, and the samples to run."""
    from tempfile import TemporaryDirectory

    from engine.calibrate import run_calibration, to_signed
    from engine.compile import compile_model
    from engine.convert import calibration_options, compile_options, open_data, placement_options
    from engine.debug.bisect import StageName
    from engine.debug.data import read_samples
    from engine.errors import ConfigError
    from engine.frontend import preprocess
    from engine.frontend.onnx import input_names, load
    from engine.ir import load_model
    from engine.optimize import optimize
    from engine.place import place
    from engine.quantize import quantize
    from engine.simulate.loaders import open_model

    specs = config.input_specs(input_names(path))
    source = load(path, {spec.name: spec.shape for spec in specs if spec.shape is not None})
    data = open_data(config, source, specs)
    original = preprocess.insert(source, specs)
    if folder is None and data is None:
        raise ConfigError("--data: give samples; the configuration has no cal_data_dir either")
    feed = read_samples(original, data if folder is None and data is not None else folder or "")
    feed = {name: array[:count] for name, array in feed.items()}
    march = config.march.value
    optimized = optimize(original, march)
    calibrated = run_calibration(
        optimized,
        place(optimized, march, placement_options(config, optimized)).model,
        data,
        calibration_options(config),
    )
    quantized = quantize(to_signed(calibrated), march)
    with TemporaryDirectory() as temporary:
        file = Path(temporary) / "model.bin"
        compile_model(quantized, march, compile_options(config), path.stem).save(file)
        compiled = open_model(file)
    models = (source, original, optimized, calibrated, quantized, compiled)
    stages = dict(zip(StageName, models, strict=False))
    if foreign is not None:
        stages[StageName.FOREIGN] = load_model(foreign)
    return stages, feed


def _show(found: Bisection, as_json: bool) -> None:
    import json
    from dataclasses import asdict

    bad = found.first_bad
    if as_json:
        pairs = [{**asdict(pair), "bad": pair.is_bad} for pair in found.pairs]
        first = None if bad is None else {"stage": bad.after, "node": bad.node, "finding": bad.finding}
        typer.echo(json.dumps({"first_bad": first, "pairs": pairs}, indent=2))
        return
    typer.echo(f"{'stage':24}{'max abs':>12}{'SQNR dB':>10}{'cosine':>12}{'LSB':>6}  finding")
    for pair in found.pairs:
        lsb = "-" if pair.lsb is None else str(pair.lsb)
        text = f"{pair.node}: {pair.finding}" if pair.is_bad else "keeps its bound"
        name = f"{pair.before} -> {pair.after}"
        typer.echo(f"{name:24}{pair.max_abs:12.4g}{pair.sqnr:10.2f}{pair.cosine:12.8f}{lsb:>6}  {text}")
    if bad is None:
        typer.echo("every stage keeps its bound")
    else:
        typer.echo(f"first bad stage: {bad.after}, node {bad.node}: {bad.finding} (bound: {bad.bound})")


def _show_errors(stages: Mapping[StageName, ir.Model], feed: Mapping[str, NDArray[Any]], as_json: bool) -> None:
    """The error table on standard output; beside JSON on standard error."""
    from engine.debug.bisect import StageName
    from engine.debug.integer_error import error_table, integer_errors

    found = integer_errors(stages[StageName.CALIBRATED], stages[StageName.QUANTIZED], feed)
    typer.echo(error_table(found), err=as_json)


def _write_minimal(
    bad: PairReport,
    stages: Mapping[StageName, ir.Model],
    feed: Mapping[str, NDArray[Any]],
    source_feed: Mapping[str, NDArray[Any]] | None,
    folder: Path,
) -> None:
    """Leave ``minimal.onnx`` and ``minimal.npz`` (inputs ``in:NAME``, ``expected``, ``actual``)."""
    import io

    import numpy as np

    from engine.debug.minimise import minimise
    from engine.ir import save_model, write_atomically

    case = minimise(bad, stages, feed, source_feed)
    save_model(case.model, folder / "minimal.onnx")
    stream = io.BytesIO()
    inputs: dict[str, Any] = {f"in:{name}": array for name, array in case.inputs.items()}
    np.savez(stream, **inputs, expected=case.expected, actual=case.actual)
    write_atomically(folder / "minimal.npz", stream.getvalue())
    typer.echo(f"minimal case: {folder / 'minimal.onnx'}", err=True)
