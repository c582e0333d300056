"""Extreme weights, calibration data and inputs at every entry: ``python -m tests.fuzz.extremes``.

NaN, infinite, denormal, huge and zero values, other byte orders, types and shapes. What an entry takes must have the
outcome of plain float32 where the values are the same, and finite figures elsewhere; all else is refused with a
message. A warning of Python is a fault, so is any error that is not ours.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import yaml
from numpy.typing import NDArray
from onnx import numpy_helper
from typer.testing import CliRunner

from engine import HB_ONNXRuntime, Session
from engine.cli.vendor import hb_mapper, hrt_model_exec, vec_diff
from engine.compat.api import infer
from engine.errors import PtqlabError
from harness.cli.main import app as ptqlab
from harness.datasets.input_folders import InputFolders, InputFoldersOptions
from harness.files.strict_yaml import parse
from tests.configurations import FEATUREMAP
from tests.engine.frontend.networks import convolution
from tests.harness.onboarding.networks import colour_classifier, colour_images

Array = NDArray[Any]

SHAPE = (1, 3, 8, 8)
PLAIN = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)


def _with(value: float) -> Array:
    """The plain values, one of them replaced."""
    array = PLAIN.copy()
    array[0, 1, 2, 3] = value
    return array


KINDS: Mapping[str, Array] = {
    "plain": PLAIN,
    "nan": _with(np.nan),
    "infinite": _with(np.inf),
    "minus infinite": _with(-np.inf),
    "all nan": np.full(SHAPE, np.nan, np.float32),
    "denormal": np.full(SHAPE, 1e-41, np.float32),
    "huge": _with(1e30),
    "all huge": np.full(SHAPE, 3e38, np.float32),
    "zeros": np.zeros(SHAPE, np.float32),
    "minus zeros": -np.zeros(SHAPE, np.float32),
    "big-endian": PLAIN.astype(">f4"),
    "float64": PLAIN.astype(np.float64),
    "big-endian float64": PLAIN.astype(">f8"),
    "Fortran order": np.asfortranarray(PLAIN),
    "beyond float32": _with(0).astype(np.float64) * 1e200,
    "int64": np.full(SHAPE, 1 << 40, np.int64),
    "bool": PLAIN > 0,
    "complex": PLAIN.astype(np.complex64),
    "text": np.full(SHAPE, "1.5"),
    "dates": np.zeros(SHAPE, "datetime64[s]"),
    "no samples": np.zeros((0, 3, 8, 8), np.float32),
    "other shape": np.zeros((1, 3, 8, 7), np.float32),
    "channels last": np.zeros((1, 8, 8, 3), np.float32),
    "other rank": np.zeros((192,), np.float32),
    "one number": np.float32(1.0).reshape(()),
}
SAME = ("big-endian", "float64", "big-endian float64", "Fortran order")
"""Other ways to write the plain values."""


class RefusedError(Exception):
    """An entry says no, with a message."""


def _command(app: Any, *arguments: str) -> None:
    result = CliRunner().invoke(app, list(arguments))
    if "RuntimeWarning" in result.output:
        raise AssertionError(result.output)
    if isinstance(result.exception, PtqlabError):
        raise RefusedError(f"{result.output}{result.exception}")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if "Traceback" in result.output:
        raise AssertionError(result.output)
    if result.exit_code:
        raise RefusedError(result.output)


def _converted(
    folder: Path, model: onnx.ModelProto, data: Array, name: str = "0.npy", parameters: Mapping[str, str] | None = None
) -> Path:
    """The ``.bin`` of ``hb_mapper makertbin``."""
    onnx.save(model, folder / "m.onnx")
    (folder / "data").mkdir()
    np.save(folder / "data" / name, data)
    content = json.loads(json.dumps(FEATUREMAP))
    content["model_parameters"] |= {"onnx_model": str(folder / "m.onnx"), "working_dir": str(folder / "out")}
    content["input_parameters"] |= parameters or {}
    content["calibration_parameters"] |= {"cal_data_dir": str(folder / "data")}
    (folder / "c.yaml").write_text(yaml.safe_dump(content))
    try:
        _command(hb_mapper.app, "makertbin", "--model-type", "onnx", "--config", str(folder / "c.yaml"))
    except RefusedError:
        assert not list(folder.glob("out/*.bin")), "a .bin is there though the conversion was refused"
        raise
    return folder / "out" / "m.bin"


def _calibration(folder: Path, array: Array) -> Array:
    path = _converted(folder, convolution(), array)
    return _run(path)


def _run(path: Path) -> Array:
    session = Session(path)
    return next(iter(session.run({info.name: PLAIN.astype(info.dtype) for info in session.inputs}).values()))


def _weights(array: Array) -> onnx.ModelProto:
    """The convolution, its weight of the values of ``array``."""
    if array.dtype.kind == "M":
        raise RefusedError("ONNX has no dates")
    model = convolution()
    weight = numpy_helper.from_array(np.resize(array, (4, 3, 3, 3)).astype(array.dtype.newbyteorder("=")), "w")
    model.graph.initializer[0].CopyFrom(weight)
    return model


def _weight(folder: Path, array: Array) -> Array:
    return _run(_converted(folder, _weights(array), PLAIN))


def _checked(folder: Path, array: Array) -> None:
    onnx.save(_weights(array), folder / "m.onnx")
    with chdir(folder):  # it writes below the working directory
        _command(hb_mapper.app, "checker", "--model-type", "onnx", "--march", "bayes-e", "--model", "m.onnx")


def _tool(*words: str) -> Callable[[Path, Array], None]:
    """A command of ``ptqlab`` that takes a float model."""

    def entry(folder: Path, array: Array) -> None:
        onnx.save(_weights(array), folder / "m.onnx")
        with chdir(folder):
            _command(ptqlab, *words, "m.onnx")

    return entry


IMAGE = {"input_type_train": "rgb", "input_layout_train": "NCHW", "input_type_rt": "rgb", "norm_type": "no_preprocess"}
"""Parameters of an input that takes images."""


def _image_data(folder: Path, array: Array) -> Array:
    """Calibration data of an image input."""
    return _run(_converted(folder, convolution(), array, parameters=IMAGE))


def _model(folder: Path, stage: str) -> Path:
    """A converted model of a stage, made once for all folders beside each other."""
    made = folder.parent / "made"
    if not (made / "out" / "m.bin").exists():
        made.mkdir()
        _converted(made, convolution(), PLAIN)
    return made / "out" / f"m{stage}"


def _float_runtime(folder: Path, array: Array) -> Array:
    return HB_ONNXRuntime(_model(folder, "_optimized_float_model.onnx")).run(None, {"x": array})[0]


def _runtime(folder: Path, array: Array) -> Array:
    return HB_ONNXRuntime(_model(folder, "_quantized_model.onnx")).run(None, {"x": array})[0]


def _features(folder: Path, array: Array) -> Array:
    return HB_ONNXRuntime(_model(folder, "_quantized_model.onnx")).run_feature(None, {"x": array}, 3)[0]


def _reference(folder: Path, array: Array) -> Array:
    return Session(_model(folder, "_quantized_model.onnx"), mode="reference").run({"x": array})["y"]


def _hmct(folder: Path, array: Array) -> Array:
    return infer(_model(folder, "_quantized_model.onnx"), {"x": array})["y"]


def _board(folder: Path, array: Array) -> None:
    np.save(folder / "i.npy", array)
    path = str(_model(folder, ".bin"))
    _command(hrt_model_exec.app, "infer", "--model_file", path, "--input_file", str(folder / "i.npy"))


def _board_raw(folder: Path, array: Array) -> None:
    (folder / "i.bin").write_bytes(array.tobytes())
    path = str(_model(folder, ".bin"))
    _command(hrt_model_exec.app, "infer", "--model_file", path, "--input_file", str(folder / "i.bin"))


def _difference(folder: Path, array: Array) -> None:
    np.save(folder / "a.npy", PLAIN)
    np.save(folder / "b.npy", array)
    _command(vec_diff.app, str(folder / "a.npy"), str(folder / "b.npy"))


PICKED = -83
"""How far the values are rolled, so that a weight of nine of them has the one that differs."""


def _classifier(folder: Path, array: Array) -> Path:
    """Images of three colours, made once; a network that tells them apart gets the values of ``array`` as weights."""
    images = folder.parent / "colours"
    if not images.exists():
        colour_images(images)
    if array.dtype.kind == "M":
        raise RefusedError("ONNX has no dates")
    model = onnx.load(colour_classifier(folder / "net.onnx"))
    values = np.resize(np.roll(array.reshape(-1), PICKED), (3, 3, 1, 1)).astype(array.dtype.newbyteorder("="))
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, "weight"))
    onnx.save(model, folder / "net.onnx")
    return images


def _initialised(folder: Path, array: Array) -> None:
    """``ptqlab init``, which tries one image through all stages, in a child process."""
    images = _classifier(folder, array)
    with chdir(folder):
        _command(ptqlab, "init", "net.onnx", "--images", str(images), "--output", "out")


def _swept(folder: Path, array: Array) -> None:
    """``ptqlab run`` of a network and its images."""
    images = _classifier(folder, array)
    with chdir(folder):
        _command(ptqlab, "run", "net.onnx", "--images", str(images), "--workdir", "work", "--no-mlflow")


def _scored(folder: Path, array: Array) -> None:
    """``ptqlab evaluate``."""
    images = _classifier(folder, array)
    content = json.loads(json.dumps(FEATUREMAP))
    content["model_parameters"] |= {"onnx_model": str(folder / "net.onnx")}
    content["input_parameters"] |= {**IMAGE, "input_name": "image"}
    (folder / "c.yaml").write_text(yaml.safe_dump(content))
    config = str(folder / "c.yaml")
    _command(ptqlab, "evaluate", str(folder / "net.onnx"), "--data", str(images), "--config", config, "--json")


def _data_set(suffix: str) -> Callable[[Path, Array], Array]:
    """A part of the samples of a data set of folders of arrays."""

    def entry(folder: Path, array: Array) -> Array:
        place = folder / "evaluation" / "part"
        place.mkdir(parents=True)
        if suffix == ".npy":
            np.save(place / "0.npy", array)
        else:
            (place / "0.bin").write_bytes(array.tobytes())
        options = {
            "folder": str(folder),
            "folders": {"evaluation": "evaluation"},
            "parts": {"part": {"shape": SHAPE[1:]}},
        }
        data = InputFolders(parse(options, InputFoldersOptions, "data"))
        return data.split("evaluation").take()["part"]

    return entry


ENTRIES: Mapping[str, Callable[[Path, Array], Array | None]] = {
    "calibration data": _calibration,
    "weights": _weight,
    "weights, checker": _checked,
    "weights, ptqlab check": _tool("check"),
    "weights, ptqlab predict": _tool("predict"),
    "calibration data of an image": _image_data,
    "HB_ONNXRuntime, float": _float_runtime,
    "HB_ONNXRuntime, quantised": _runtime,
    "HB_ONNXRuntime.run_feature": _features,
    "Session, reference": _reference,
    "hmct infer": _hmct,
    "hrt_model_exec infer, .npy": _board,
    "hrt_model_exec infer, raw": _board_raw,
    "vec_diff": _difference,
    "ptqlab init": _initialised,
    "ptqlab evaluate": _scored,
    "ptqlab run": _swept,
    "data set, .npy": _data_set(".npy"),
    "data set, raw": _data_set(".bin"),
}
SLOW = tuple(entry for entry in ENTRIES if entry.startswith(("ptqlab", "weights,")))
"""Entries whose kinds take seconds: commands that start or convert."""
FINITE = ("calibration data", "calibration data of an image", "weights")
"""Entries whose data make a model: whatever they take, it gives finite results for plain inputs."""
INFINITE = ("all huge", "beyond float32")
"""Weights of which already the float model makes infinite results."""


def outcome(entry: str, kind: str, folder: Path) -> str:
    """``taken``, or the message of a refusal.

    Args:
        entry: of :data:`ENTRIES`.
        kind: of :data:`KINDS`.
        folder: to be made; its name without commas, which part file names on command lines.

    Raises:
        Exception: whatever is neither.
        AssertionError: a result that is silently wrong.
    """
    folder.mkdir()
    loud = {"PYTHONWARNINGS": "error::RuntimeWarning"}  # of processes that it starts
    with warnings.catch_warnings(), patch.dict(os.environ, loud):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)  # pipes of children, closed when their objects go
        try:
            result = ENTRIES[entry](folder, KINDS[kind])
        except (PtqlabError, RefusedError) as error:
            if "RuntimeWarning" in str(error):
                raise AssertionError(str(error)) from error
            return str(error)
    if result is not None and kind in SAME and "raw" not in entry:  # raw files do not say what they hold
        plain = folder.with_name(f"{folder.name} plain")
        plain.mkdir()
        expected = ENTRIES[entry](plain, KINDS["plain"])
        assert expected is not None
        np.testing.assert_array_equal(result, expected)
    if entry in FINITE and not (entry == "weights" and kind in INFINITE):
        assert result is not None
        assert np.isfinite(result).all(), "the results are not finite"
    return "taken"


def main() -> int:
    """Try every entry with every kind; the exit code."""
    logging.disable()
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        for entry in ENTRIES:
            for kind in KINDS:
                try:
                    found = outcome(entry, kind, Path(folder) / re.sub(r"\W", "_", f"{entry} {kind}"))
                except Exception:  # noqa: BLE001 - whatever is raised is a finding
                    faults += 1
                    found = f"FAULT {traceback.format_exc(limit=-3)}"
                sys.stdout.write(f"{entry} | {kind} | {' '.join(found.split())[:300]}\n")
    sys.stdout.write(f"{len(ENTRIES) * len(KINDS)} cases, {faults} faults\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
