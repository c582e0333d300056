"""``ptqlab prepare``, ``evaluate`` and ``classify``: the steps of the sample folders around a conversion."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.chips import DEFAULT_MARCH, March
from engine.cli.console import say
from engine.errors import ConfigError
from engine.terms import InputType
from harness.terms import Fit, ReadMode

if TYPE_CHECKING:
    from engine.config import Config
    from harness.flow.preparation import Preparation

ModelFile = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, help="Model of any stage: .onnx, .bin, .hbm, .bc.")
]
Conversion = Annotated[
    Path, typer.Option("--config", "-c", exists=True, dir_okay=False, help="YAML file of the conversion.")
]
Input = Annotated[str | None, typer.Option("--input", help="Name of the image input, if there are several.")]
Fitting = Annotated[
    Fit, typer.Option("--fit", help="Resize and crop the centre, stretch, or resize in proportion and pad.")
]
Chain = Annotated[
    Path | None,
    typer.Option("--transformers", exists=True, dir_okay=False, help="YAML list of all steps, instead of --fit."),
]
Reader = Annotated[ReadMode, typer.Option("--read-mode", help="Library that reads and resizes images.")]


def prepare(
    images: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder of images.")],
    config: Conversion,
    count: Annotated[
        int | None, typer.Option("-n", min=1, help="Number of images to draw at random; default: all.")
    ] = None,
    recursive: Annotated[bool, typer.Option("--recursive", help="Also search subfolders.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    fit: Fitting = Fit.CROP,
    transformers: Chain = None,
    read_mode: Reader = ReadMode.OPENCV,
    name: Input = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder; default: that of cal_data_dir.")
    ] = None,
) -> None:
    """Write the calibration folder of a conversion from a folder of images."""
    from harness.flow.calibration_folder import write_folder
    from harness.flow.preparation import chosen, image_files

    settings, preparation = _preparation(config, name, fit, transformers, read_mode)
    files = chosen(image_files(images, recursive), count, seed)
    folder = write_folder(settings, preparation, files, output)
    spec, shape = preparation.target.spec, "x".join(map(str, preparation.target.shape))
    say(f"{len(files)} samples of input {spec.name}, {spec.type_train.value} {shape}, written to {folder}")


def evaluate(
    model: ModelFile,
    data: Annotated[Path, typer.Option("--data", exists=True, file_okay=False, help="Images, one folder per class.")],
    config: Conversion,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", exists=True, dir_okay=False, help="File with one image and its class per line."),
    ] = None,
    metric: Annotated[str, typer.Option("--metric", help="A metric of class scores.")] = "top1",
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help="Number of images to draw at random.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    fit: Fitting = Fit.CROP,
    transformers: Chain = None,
    read_mode: Reader = ReadMode.OPENCV,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Threads; default: PARALLEL_PROCESS_NUM, else all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the report.")] = False,
) -> None:
    """Score a model of any stage on labelled images and print the report that the toolchain's samples print."""
    import json

    from rich.progress import Progress

    from engine.cli.terminal import Terminal
    from harness.flow import scoring
    from harness.metrics import open_metric

    _, preparation = _preparation(config, None, fit, transformers, read_mode)
    threads, judge = scoring.workers(jobs), open_metric(metric)
    found = scoring.drawn(scoring.labelled(data, labels), limit, seed)
    opened = scoring.open_file(model, threads)
    with Progress(console=Terminal(stderr=True), transient=True) as progress:
        task = progress.add_task(model.name, total=len(found.files))
        score = scoring.evaluate(
            opened, preparation, found, judge, threads, lambda images: progress.advance(task, images)
        )
    if as_json:
        facts = {"model": str(model), "data": str(data), "images": len(found.files), "metric": metric}
        say(json.dumps({**facts, "value": score.value, "stderr": score.stderr}, indent=2))
    else:
        say(scoring.report(score))


def classify(
    model: ModelFile,
    image: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An image.")],
    config: Conversion,
    names: Annotated[
        Path | None, typer.Option("--names", exists=True, dir_okay=False, help="Names of the classes, one per line.")
    ] = None,
    count: Annotated[int, typer.Option("-k", min=1, help="How many classes.")] = 5,
    fit: Fitting = Fit.CROP,
    transformers: Chain = None,
    read_mode: Reader = ReadMode.OPENCV,
) -> None:
    """Print the likeliest classes of one image, with their probabilities."""
    from harness.flow import scoring

    _, preparation = _preparation(config, None, fit, transformers, read_mode)
    outputs = scoring.outputs_of(scoring.open_file(model), preparation, [image], 1, lambda _: None)
    if len(outputs) != 1:
        raise ConfigError(
            f"{model}: has {len(outputs)} outputs; classify needs a model with one output that holds one "
            "score per class"
        )
    known = [] if names is None else names.read_text(encoding="utf-8").splitlines()
    say("The input picture is classified to be:")
    for index, probability in scoring.likeliest(outputs[0], count):
        name = f" {known[index].strip()}" if index < len(known) else ""
        say(f"label {index}: prob {probability:.2f}{name}")


def sample(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Float ONNX model with one image input.")],
    folder: Annotated[Path, typer.Argument(file_okay=False, help="New folder for the scripts.")],
    images: Annotated[
        Path, typer.Option("--images", exists=True, file_okay=False, help="Images, one folder per class.")
    ],
    labels: Annotated[
        Path | None,
        typer.Option("--labels", exists=True, dir_okay=False, help="File with one image and its class per line."),
    ] = None,
    march: Annotated[March, typer.Option("--march", help="BPU architecture.")] = DEFAULT_MARCH,
    input_type: Annotated[
        InputType, typer.Option("--input-type-train", help="Colour format on which the network was trained.")
    ] = InputType.RGB,
    mean: Annotated[str, typer.Option("--mean", help="Mean per channel in 0..255, separated by spaces.")] = "",
    scale: Annotated[str, typer.Option("--scale", help="Factor per channel, separated by spaces.")] = "",
    fit: Fitting = Fit.CROP,
    count: Annotated[
        int | None,
        typer.Option("-n", min=1, help="Calibration images; default: 100, or all if there are fewer."),
    ] = None,
) -> None:
    """Write a folder like the toolchain's samples for a network: a configuration and scripts 00 to 05."""
    from harness.flow.sample_folder import Sample, write_sample

    numbers = [_numbers(name, text) for name, text in (("--mean", mean), ("--scale", scale))]
    wanted = Sample(model, images, labels, march, input_type, numbers[0], numbers[1], fit, count)
    written = write_sample(wanted, folder)
    for path in written:
        say(path)
    say(f"next: the scripts in their order, from {written[1]}")


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.replace(",", " ").split())
    except ValueError:
        raise typer.BadParameter(f"{text!r}: expected numbers separated by spaces", param_hint=option) from None


def _preparation(
    config: Path, name: str | None, fit: Fit, transformers: Path | None, mode: ReadMode
) -> tuple[Config, Preparation]:
    from harness.flow.preparation import Preparation, open_input, read_chain

    settings, target = open_input(config, name)
    return settings, Preparation(target, mode, fit, read_chain(transformers))
