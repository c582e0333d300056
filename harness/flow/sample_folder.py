"""``ptqlab sample``: a folder of scripts for one network, named and ordered as the toolchain's samples."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from engine.chips import HB_COMPILE_MARCHES, March
from engine.errors import ConfigError
from engine.frontend import load_network
from engine.ir import shape_of, write_atomically
from engine.terms import InputType, Layout
from harness.flow.preparation import image_files
from harness.terms import Fit

USUAL_COUNT = 100
"""Calibration images."""


@dataclass(frozen=True)
class Sample:
    """What the scripts are for.

    Attributes:
        model: the float model, ONNX.
        images: folder of images: of one folder per class, or with ``labels``.
        labels: lines of image and class.
        march: architecture.
        trained: colours that the network was trained on.
        mean: per channel, of 0..255; empty for none.
        scale: per channel; empty for none.
        fit: how images are brought to the input's size.
        count: calibration images to draw; None for :data:`USUAL_COUNT`, or all if there are fewer.
    """

    model: Path
    images: Path
    labels: Path | None
    march: March
    trained: InputType
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    fit: Fit = Fit.CROP
    count: int | None = None


def write_sample(sample: Sample, folder: Path) -> list[Path]:
    """Write the configuration and the scripts 00 to 05; the scripts are executable and run from any folder.

    Returns:
        The files, in their order.

    Raises:
        ConfigError: ``folder`` holds files already, the model has no single image input, or there are fewer images
            than ``count``.
        CalibrationDataError: there are no images.
        ModelError: the model cannot be read.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(f"{folder}: is not empty; give a new folder")
    found = len(image_files(sample.images, recursive=True))
    if sample.count is not None and sample.count > found:
        raise ConfigError(f"-n {sample.count}: {sample.images} holds {found} images")
    sample = replace(sample, count=sample.count or min(USUAL_COUNT, found))
    name = sample.model.stem
    files = {f"{name}_config.yaml": _config(sample, folder), **_scripts(sample, folder)}
    written = []
    for file, text in files.items():
        path = write_atomically(folder / file, text.encode())
        if path.suffix == ".sh":
            path.chmod(0o755)
        written.append(path)
    return written


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path.resolve(), folder.resolve())


def _config(sample: Sample, folder: Path) -> str:
    source = load_network(sample.model)
    shapes = {str(value.name): shape_of(value) for value in source.graph.inputs}
    if len(shapes) != 1:
        raise ConfigError(
            f"{sample.model}: has inputs {', '.join(shapes)}; a sample folder needs a network with one image input"
        )
    ((name, shape),) = shapes.items()
    layout = _layout(sample, name, shape)
    normalised = {(True, True): "data_mean_and_scale", (True, False): "data_mean", (False, True): "data_scale"}
    even = all(side % 2 == 0 for side in (shape[2:4] if layout is Layout.NCHW else shape[1:3]))
    camera = even and sample.trained in (InputType.RGB, InputType.BGR)
    newer = sample.march in HB_COMPILE_MARCHES
    inputs = {
        "input_name": name,
        "input_type_train": sample.trained.value,
        "input_layout_train": layout.value,
        "input_type_rt": (InputType.NV12 if camera else sample.trained).value,
        **_numbers("mean_value", sample.mean),
        **_numbers("scale_value", sample.scale),
    }
    if not newer:
        inputs["norm_type"] = normalised.get((bool(sample.mean), bool(sample.scale)), "no_preprocess")
    content = {
        "model_parameters": {
            "onnx_model": _relative(sample.model, folder),
            "march": sample.march.value,
            "output_model_file_prefix": sample.model.stem,
            "working_dir": "model_output",
        },
        "input_parameters": inputs,
        "calibration_parameters": {"cal_data_dir": "calibration_data_f32", "calibration_type": "default"},
        "compiler_parameters": {"compile_mode": "latency", "optimize_level": "O2" if newer else "O3"},
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def _layout(sample: Sample, name: str, shape: tuple[int, ...]) -> Layout:
    channels = 1 if sample.trained is InputType.GRAY else 3
    for layout, axis in ((Layout.NCHW, 1), (Layout.NHWC, 3)):
        if len(shape) == 4 and shape[axis] == channels:
            return layout
    raise ConfigError(f"{sample.model}: input {name} of shape {list(shape)} is not an image of {sample.trained.value}")


def _numbers(key: str, values: tuple[float, ...]) -> dict[str, str]:
    return {key: " ".join(f"{value:g}" for value in values)} if values else {}


def _scripts(sample: Sample, folder: Path) -> Mapping[str, str]:
    name = sample.model.stem
    newer = sample.march in HB_COMPILE_MARCHES
    model, images = (shlex.quote(_relative(path, folder)) for path in (sample.model, sample.images))
    config, prefix = shlex.quote(f"{name}_config.yaml"), f"model_output/{name}"
    quantized = shlex.quote(f"{prefix}_quantized_model.{'bc' if newer else 'onnx'}")
    labels = "" if sample.labels is None else f" --labels {shlex.quote(_relative(sample.labels, folder))}"
    check = "hb_compile" if newer else "hb_mapper checker --model-type onnx"
    build = "hb_compile" if newer else "hb_mapper makertbin --model-type onnx"
    fit = f"--fit {sample.fit.value}"
    steps = {
        "00_init.sh": ("The commands are there.", f"{check.split()[0]} --version"),
        "01_check.sh": ("Where will each operator run?", f"{check} --march {sample.march.value} --model {model}"),
        "02_preprocess.sh": (
            "Calibration data from images.",
            "rm -rf calibration_data_f32\n"
            f"ptqlab prepare {images} --config {config} -n {sample.count} {fit} --recursive",
        ),
        "03_build.sh": ("Convert.", f"{build} --config {config}"),
        "04_inference.sh": (
            "The five likeliest classes of an image: 04_inference.sh IMAGE [NAMES_OF_CLASSES]",
            'image="$(realpath "${1:?give an image}")"\nnames="${2:+$(realpath "$2")}"\ncd "$(dirname "$0")"\n'
            f'ptqlab classify {quantized} "$image" --config {config} {fit} ${{names:+--names "$names"}}',
        ),
        "05_evaluate.sh": (
            "Accuracy of the quantised model; PARALLEL_PROCESS_NUM=N sets the number of threads.",
            f"ptqlab evaluate {quantized} --data {images}{labels} --config {config} {fit}",
        ),
    }
    return {file: _script(comment, command) for file, (comment, command) in steps.items()}


def _script(comment: str, command: str) -> str:
    enter = "" if 'cd "$(dirname' in command else 'cd "$(dirname "$0")"\n'
    return f"#!/bin/sh\n# {comment}\nset -eu\n{enter}{command}\n"
