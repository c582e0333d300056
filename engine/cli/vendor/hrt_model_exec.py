"""Run, measure and describe a .bin file: the board's program on the simulator."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.common import Truth, command_app, version_option
from engine.cli.console import say
from engine.errors import ConfigError, PtqlabError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.compile import CompiledModel
    from engine.simulate import Session

TOP = 5
"""Classes that the classification post-process prints."""
DUMP_FOLDER = Path()
DEFAULT_AXIS = 4
"""Default of ``--dump_txt_axis``; tensors of a lower rank have a value on each line."""
PADDED_DUMP = 2
"""Value of ``--dump_intermediate`` for maps as the BPU computes them, padded."""

app = command_app("hrt_model_exec", __doc__, no_args_is_help=True)

ModelFile = Annotated[Path, typer.Option("--model_file", "--model-file", exists=True, dir_okay=False)]
ModelName = Annotated[
    str | None, typer.Option("--model_name", "--model-name", help="Name of one model of a packed file.")
]
InputFile = Annotated[
    str | None, typer.Option("--input_file", "--input-file", help="Files joined by commas; default: random data.")
]
CoreId = Annotated[int, typer.Option("--core_id", "--core-id", min=0, max=2, help="0: any core; no effect here.")]


class DumpFormat(StrEnum):
    """Format of dumped tensors."""

    BIN = "bin"
    TXT = "txt"


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command; ``arguments`` default to those of the process."""
    try:
        app(args=None if arguments is None else list(arguments))
    except PtqlabError as error:
        say(f"ERROR {error}", err=True)
        raise SystemExit(error.exit_code) from None


@app.callback()
def hrt_model_exec(_: Annotated[bool, version_option("hrt_model_exec")] = False) -> None:
    """Run, measure and describe a .bin file on the simulator."""


@app.command("model_info")
def model_info(model_file: ModelFile, model_name: ModelName = None) -> None:
    """Show inputs and outputs."""
    from engine.cli.inputs import run_time_shape
    from engine.compile.pack import open_models
    from engine.frontend.preprocess import saved_inputs
    from engine.ir import shape_of

    for compiled in open_models(model_file, model_name or None):
        say(f"[model name]: {compiled.name}\n")
        graph = compiled.model.graph
        images = {spec.name: spec for spec in saved_inputs(compiled.model) if spec.is_image}
        for kind, values in (("input", graph.inputs), ("output", graph.outputs)):
            for index, value in enumerate(values):
                shape, data_type = shape_of(value), "" if value.dtype is None else value.dtype.numpy().name
                if kind == "input" and str(value.name) in images:
                    spec = images[str(value.name)]
                    shape, data_type = run_time_shape(shape, spec), f"{spec.type_rt.value.upper()} (uint8)"
                say(f"{kind}[{index}]:")
                say(f"name: {value.name}")
                say(f"valid shape: ({','.join(map(str, shape))})")
                say(f"tensor type: {data_type}\n")


@app.command()
def infer(
    model_file: ModelFile,
    input_file: InputFile = None,
    model_name: ModelName = None,
    core_id: CoreId = 0,
    roi_infer: Annotated[Truth, typer.Option("--roi_infer", case_sensitive=False)] = Truth.FALSE,
    roi: Annotated[str | None, typer.Option("--roi")] = None,
    frame_count: Annotated[int, typer.Option("--frame_count", min=1, help="How often to run.")] = 1,
    dump_intermediate: Annotated[
        int,
        typer.Option(
            "--dump_intermediate",
            min=0,
            max=3,
            help="Dump inputs and outputs of every node. 1: bin; 2: bin and txt, BPU maps padded; 3: not padded.",
        ),
    ] = 0,
    enable_dump: Annotated[Truth, typer.Option("--enable_dump", case_sensitive=False)] = Truth.FALSE,
    dump_precision: Annotated[int, typer.Option("--dump_precision", min=0, max=17)] = 9,
    hybrid_dequantize_process: Annotated[
        Truth, typer.Option("--hybrid_dequantize_process", case_sensitive=False, help="Dequantise integer outputs.")
    ] = Truth.FALSE,
    dump_format: Annotated[DumpFormat, typer.Option("--dump_format")] = DumpFormat.BIN,
    dump_txt_axis: Annotated[
        int, typer.Option("--dump_txt_axis", min=0, help="Axis along which lines run.")
    ] = DEFAULT_AXIS,
    enable_cls_post_process: Annotated[
        Truth, typer.Option("--enable_cls_post_process", case_sensitive=False, help="Print the best classes.")
    ] = Truth.FALSE,
) -> None:
    """Run one or more frames."""
    import numpy as np

    from engine.cli.inputs import read_inputs
    from engine.compile.removal import dequantized
    from engine.ir import file_name
    from engine.simulate import Session

    _refuse_roi(roi_infer, roi)
    compiled = _single(model_file, model_name)
    deepest = max(DEFAULT_AXIS, *(len(value.shape or ()) for value in compiled.model.graph.outputs))
    if dump_txt_axis > deepest:
        raise ConfigError(f"--dump_txt_axis {dump_txt_axis}: the outputs of {model_file} have up to {deepest} axes")
    session = Session(compiled.executable)
    feed = read_inputs(session, input_file)
    results = session.run(feed)  # compiles the simulator's kernels, which is no part of the time
    milliseconds, differing = [], 0
    for _ in range(frame_count):
        seconds, again = _timed(session, feed)
        milliseconds.append(seconds * 1e3)
        differing += any(not np.array_equal(again[name], array, equal_nan=True) for name, array in results.items())
    say(f"Infer time: {sum(milliseconds) / len(milliseconds):.3f} ms per frame on the simulator")
    if frame_count > 1:
        say(f"{frame_count} frames: {differing} differ from the first in their outputs")
    if core_id:
        say("--core_id has no effect: the simulator has no cores")
    outputs = dequantized(compiled, results) if hybrid_dequantize_process else results
    if enable_dump:
        for index, (name, array) in enumerate(outputs.items()):
            stem = f"model_infer_output_{index}_{file_name(name)}"
            _dump(stem, array, (dump_format,), dump_precision, dump_txt_axis)
    if dump_intermediate:
        formats = (DumpFormat.BIN,) if dump_intermediate == 1 else (DumpFormat.BIN, DumpFormat.TXT)
        values = {**feed, **_all_values(compiled, feed)}
        shown = _padded(compiled, values) if dump_intermediate == PADDED_DUMP else values
        _dump_values(shown, formats, dump_precision, dump_txt_axis)
    if enable_cls_post_process:
        _print_classes(next(iter(dequantized(compiled, results).values())))


@app.command()
def perf(
    model_file: ModelFile,
    model_name: ModelName = None,
    input_file: InputFile = None,
    core_id: CoreId = 0,
    frame_count: Annotated[int, typer.Option("--frame_count", min=1)] = 200,
    perf_time: Annotated[
        float, typer.Option("--perf_time", min=0, help="Minutes to run; 0: run frame_count frames.")
    ] = 0,
    thread_num: Annotated[int, typer.Option("--thread_num", min=1, max=8)] = 1,
    profile_path: Annotated[Path | None, typer.Option("--profile_path", help="Folder of the profile.")] = None,
) -> None:
    """Measure the simulator's speed, and show the latency that the model will have on the BPU."""
    import time
    from concurrent.futures import ThreadPoolExecutor

    from engine.cli.inputs import read_inputs
    from engine.perf import estimate
    from engine.simulate import Session

    compiled = _single(model_file, model_name)
    session = Session(compiled.executable, threads=1)
    feed = read_inputs(session, input_file)
    session.run(feed)
    deadline = time.perf_counter() + 60 * perf_time if perf_time else None
    start = time.perf_counter()
    with ThreadPoolExecutor(thread_num) as pool:
        latencies: list[float] = []
        while (time.perf_counter() < deadline) if deadline else (len(latencies) < frame_count):
            count = thread_num if deadline else min(thread_num, frame_count - len(latencies))
            latencies += [seconds * 1e3 for seconds, _ in pool.map(lambda _: _timed(session, feed), range(count))]
    run_time = (time.perf_counter() - start) * 1e3
    predicted = estimate(compiled)
    fps = 1e3 * len(latencies) * predicted.frames / run_time
    figures = {
        "perf_result": {"FPS": fps, "average_latency": sum(latencies) / len(latencies)},
        "running_condition": {
            "core_id": core_id,
            "frame_count": len(latencies),
            "model_name": compiled.name,
            "run_time": run_time,
            "thread_num": thread_num,
        },
    }
    say("Running condition:")
    say(f"  Thread number is: {thread_num}")
    say(f"  Frame count   is: {len(latencies)}")
    say(f"  core number   is: {compiled.options.core_num}")
    say(f"  Program run time: {run_time:.6f} ms")
    say("Perf result (simulator):")
    say(f"  Frame totally latency is: {sum(latencies):.6f} ms")
    say(f"  Average    latency    is: {sum(latencies) / len(latencies):.6f} ms")
    say(f"  Frame      rate       is: {fps:.6f} FPS")
    say("Estimate (BPU):")
    say(f"  latency is: {predicted.latency_us / 1e3:.6f} ms, {predicted.fps:.3f} FPS")
    if profile_path is not None:
        _write_profile(profile_path, figures, latencies, compiled)


def _single(model_file: Path, model_name: str | None) -> CompiledModel:
    from engine.compile.pack import open_models

    models = open_models(model_file, model_name or None)
    if len(models) > 1:
        names = ", ".join(model.name for model in models)
        raise ConfigError(f"{model_file} holds several models; name one with --model_name: {names}")
    return models[0]


def _refuse_roi(wanted: Truth, roi: str | None) -> None:
    if wanted or roi is not None:
        raise UnsupportedError(
            "--roi_infer, --roi: the simulator has no resizer; give an image of the size of the input"
        )


def _timed(session: Session, feed: dict[str, NDArray[Any]]) -> tuple[float, dict[str, NDArray[Any]]]:
    import time

    start = time.perf_counter()
    results = session.run(feed)
    return time.perf_counter() - start, results


def _all_values(compiled: CompiledModel, feed: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Every tensor that a node computes."""
    from engine.simulate import Session

    copy = compiled.model.clone()
    copy.graph.outputs[:] = [value for node in copy.graph for value in node.outputs]
    return Session(copy).run(feed)


def _padded(compiled: CompiledModel, values: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """``values`` with zeros behind those that a BPU layer computes, up to the shape that the hardware computes."""
    import numpy as np

    from engine.chips.latency import load_latency
    from engine.compile.cost import aligned_shape

    alignment = load_latency(compiled.march).alignment
    layers = {layer.output: layer for schedule in compiled.schedules for layer in schedule.layers}
    padded = {}
    for name, array in values.items():
        layer = layers.get(name)
        shape = aligned_shape(array.shape, alignment) if layer and layer.output_shape == array.shape else array.shape
        padded[name] = np.pad(array, [(0, after - size) for size, after in zip(array.shape, shape, strict=True)])
    return padded


def _dump_values(values: Mapping[str, NDArray[Any]], formats: Sequence[DumpFormat], precision: int, axis: int) -> None:
    """A file per value and format, called as the value is."""
    from engine.ir import file_names

    names = file_names(values)
    for name, array in values.items():
        _dump(names[name], array, formats, precision, axis)


def _dump(stem: str, array: NDArray[Any], formats: Sequence[DumpFormat], precision: int, axis: int) -> None:
    from engine.ir import write_atomically

    for form in formats:
        content = array.tobytes() if form is DumpFormat.BIN else _text(array, precision, axis).encode()
        write_atomically(DUMP_FOLDER / f"{stem}.{form.value}", content)
        say(f"dump {stem}.{form.value}")


def _text(array: NDArray[Any], precision: int, axis: int) -> str:
    """Values as text, a line for every index of the axes before ``axis``."""
    import numpy as np

    rows = array.reshape(int(np.prod(array.shape[: min(axis, array.ndim)])), -1)
    form = f"{{:.{precision}f}}" if np.issubdtype(array.dtype, np.floating) else "{}"
    return "\n".join(" ".join(form.format(value) for value in row) for row in rows.tolist()) + "\n"


def _print_classes(scores: NDArray[Any]) -> None:
    flat = scores.reshape(-1)
    for rank, index in enumerate((-flat).argsort(kind="stable")[:TOP]):
        say(f"[{rank}]: class {index}, score {float(flat[index]):.6f}")


def _write_profile(folder: Path, figures: dict[str, Any], latencies: Sequence[float], compiled: CompiledModel) -> None:
    """``profiler.log`` (two JSON documents, ``***`` between them) and ``profiler.csv``."""
    from engine.board import SIMULATED
    from engine.ir import write_atomically
    from engine.perf import estimate
    from engine.perf.cpu import layout_costs

    predicted = estimate(compiled)
    bpu = {f"BPU_{part.name}": _always(part.latency_us / 1e3) for part in predicted.subgraphs}
    cpu = {f"{cost.op_type.removeprefix('Hz')}_{cost.name}": _always(cost.us / 1e3) for cost in predicted.cpu_costs}
    cpu |= {cost.name: _always(cost.us / 1e3) for cost in layout_costs(compiled)}
    running = {"avg_time": sum(latencies) / len(latencies), "max_time": max(latencies), "min_time": min(latencies)}
    tasks = {"TaskPendingTime": _always(0.0), "TaskRunningTime": running}
    details = {
        "chip_latency": {
            "BPU_inference_time_cost": _always(predicted.latency_us / 1e3),
            "CPU_inference_time_cost": _always(sum(entry["avg_time"] for entry in cpu.values())),
        },
        "model_latency": {**bpu, **cpu},
        "task_latency": tasks,
        "note": SIMULATED,
    }
    text = json.dumps(figures, indent=2) + "\n***\n" + json.dumps(details, indent=2) + "\n"
    write_atomically(folder / "profiler.log", text.encode())
    rows = ["name,avg_time_ms,max_time_ms,min_time_ms"]
    for name, entry in {**bpu, **cpu, **tasks}.items():
        rows.append(f"{name},{entry['avg_time']},{entry['max_time']},{entry['min_time']}")
    write_atomically(folder / "profiler.csv", ("\n".join(rows) + "\n").encode())


def _always(milliseconds: float) -> dict[str, float]:
    return dict.fromkeys(("avg_time", "max_time", "min_time"), milliseconds)
