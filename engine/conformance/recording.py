"""Recording a case: the user's own toolchain converts a model, and its inputs and results are kept."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import yaml
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx.external_data_helper import uses_external_data
from PIL import Image

from engine.config import read_yaml
from engine.conformance.cases import CUSTOM_OP, MODEL_KEYS, PIXEL_OFFSET, RECORDED, read_arrays
from engine.conformance.stripped import without_weights
from engine.conformance.toolchain import LOG_FILE, VERSION_SECONDS, Command, Finished, Log, read_log, read_text
from engine.errors import CalibrationDataError, ConfigError, ModelError
from engine.ir import load_model, save_model, write_atomically
from engine.simulate.session import image_inputs
from engine.simulate.tensors import describe, graph_inputs
from engine.untrusted import opened_image, read_npy
from engine.version import installed_version

RUNS = 2
"""How many samples the quantised model is run on."""
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")
SYNTHETIC_SAMPLES = 2
"""How many random calibration samples stand in for the user's where weights are left out."""


@dataclass(frozen=True)
class CaseRecorder:
    """How cases are recorded.

    Attributes:
        tool: the command that has ``makertbin``.
        runtime: a Python that has ``horizon_tc_ui``; ``None`` to record no outputs.
        to: folder of the cases.
        weights: whether weights, calibration data and outputs are kept.
        time_limit: seconds that a conversion may take.
    """

    tool: Command
    runtime: Command | None
    to: Path
    weights: bool
    time_limit: float

    def record(self, config: Path) -> Path:
        """Convert as ``config`` asks for and keep the case; the folder that holds it.

        Raises:
            ConfigError: the configuration cannot be read, a file that it names is missing, the case exists already, or
                the tool neither converts nor refuses.
            ModelError: a model of the tool cannot be read.
        """
        content = _absolute(config)
        folder = self.to / _case_name(config)
        if folder.exists():
            raise ConfigError(f"{folder}: already exists; remove it or record into another folder")
        self.to.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".recording-", dir=self.to) as work:
            made = Path(work) / "case"
            made.mkdir()
            self._fill(made, Path(work), content)
            made.rename(folder)
        return folder

    def _fill(self, case: Path, work: Path, content: dict[str, Any]) -> None:
        """Write all files of a case to ``case``; the tool works in ``work``."""
        out = work / "out"
        content["model_parameters"]["working_dir"] = str(out)
        given = work / "config.yaml"
        write_atomically(given, yaml.safe_dump(content, sort_keys=False).encode())
        kind = "onnx" if "onnx_model" in content["model_parameters"] else "caffe"
        done = self.tool.run(["makertbin", "--config", str(given), "--model-type", kind], work, self.time_limit)
        log = read_log(read_text(work / LOG_FILE) or done.text)
        written = {name: next(iter(sorted(out.glob(f"*_{name}_model.onnx"))), None) for name in _KEPT}
        if done.code == 0 and written["quantized"] is None:
            raise ConfigError(f"{self.tool.words[0]}: succeeded but wrote no *_quantized_model.onnx to {out.name}")
        digests = _digests(content, out)
        self._keep_models(case, written)
        self._keep_given(case, content)
        if self.weights and written["quantized"] is not None:
            self._run(case, work)
        result = {
            "net": str(content["model_parameters"].get("output_model_file_prefix") or "model"),
            **self._result(done, log, work),
            "sha256": digests,
        }
        write_atomically(case / RECORDED, json.dumps(result, indent=1).encode())

    def _keep_models(self, case: Path, written: Mapping[str, Path | None]) -> None:
        for name, path in written.items():
            if path is None:
                continue
            model = load_model(path)
            save_model(model if self.weights else without_weights(model, random=False), case / f"{name}.onnx")

    def _keep_given(self, case: Path, content: dict[str, Any]) -> None:
        """The float network, the calibration data and the configuration that names both where they are kept."""
        model = content["model_parameters"]
        kept = {key: Path(model[key]) for key in MODEL_KEYS if key in model}
        if self.weights:
            for key, path in kept.items():
                model[key] = f"./{_keep_model(path, case, key)}"
        else:
            if "onnx_model" not in kept:
                raise ConfigError("--no-weights: weights can be left out only of ONNX models")
            network = load_model(kept["onnx_model"])
            save_model(without_weights(network, random=True), case / "model.onnx")
            model["onnx_model"] = "./model.onnx"
        model["working_dir"] = "./out"
        content.pop(CUSTOM_OP, None)
        calibration = content["calibration_parameters"]
        folders = [Path(part) for part in str(calibration.get("cal_data_dir") or "").split(";") if part]
        kinds = [part.strip() for part in str(calibration.get("cal_data_type") or "float32").split(";")]
        for index, folder in enumerate(folders):
            to = case / f"cal_{index}"
            if self.weights:
                shutil.copytree(folder, to)
            else:
                _synthetic(folder, to, kinds[min(index, len(kinds) - 1)])
        if folders:
            calibration["cal_data_dir"] = ";".join(f"./cal_{index}" for index in range(len(folders)))
        write_atomically(case / "config.yaml", yaml.safe_dump(content, sort_keys=False).encode())

    def _run(self, case: Path, work: Path) -> None:
        """Inputs and outputs of the quantised model in the tool's own runtime."""
        if self.runtime is None:
            return
        inputs = _inputs(load_model(case / "quantized.onnx"), RUNS)
        given, to = work / "inputs.npz", work / "outputs.npz"
        _save_arrays(given, inputs)
        with as_file(files("engine.conformance") / "original_outputs.py") as script:
            arguments = [str(script), str(case / "quantized.onnx"), str(given), str(to)]
            done = self.runtime.run(arguments, work, self.time_limit)
        if done.code or not to.is_file():
            last = (done.text.strip().splitlines() or ["it printed nothing"])[-1]
            raise ConfigError(f"--runtime: the quantised model could not be run, exit code {done.code}: {last}")
        _save_arrays(case / "io.npz", inputs | read_arrays(to))

    def _result(self, done: Finished, log: Log, work: Path) -> dict[str, Any]:
        told = self.tool.run(["--version"], work, VERSION_SECONDS).text.strip().splitlines()
        return {
            "recorded_by": f"ptqlab {installed_version()}",
            "tool": {"version": told[-1] if told else "", "named_in_log": log.versions},
            "weights": self.weights,
            "rc": done.code,
            "nodes": log.nodes,
            "outputs": log.outputs,
            "subgraphs_us_ddr": log.subgraphs,
            "messages": log.messages,
            "tail": log.tail if done.code else (),
        }


_KEPT = ("calibrated", "quantized")
"""Models of the tool that a case keeps."""


def _absolute(config: Path) -> dict[str, Any]:
    """The content of ``config`` with absolute paths.

    Raises:
        ConfigError: the file cannot be read, lacks a group or names a file that is not there.
    """
    content = {name: dict(group) if isinstance(group, Mapping) else group for name, group in read_yaml(config).items()}
    for group in ("model_parameters", "calibration_parameters"):
        if not isinstance(content.setdefault(group, {}), dict):
            raise ConfigError(f"{config}: {group}: expected a group of parameters")
    model, calibration = content["model_parameters"], content["calibration_parameters"]
    if not any(key in model for key in MODEL_KEYS):
        raise ConfigError(f"{config}: model_parameters has no network; expected {' or '.join(MODEL_KEYS)}")
    for key in MODEL_KEYS:
        if key in model:
            model[key] = str(_existing(config, key, str(model[key])))
    if folders := str(calibration.get("cal_data_dir") or ""):
        parts = [part.strip() for part in folders.split(";")]
        calibration["cal_data_dir"] = ";".join(str(_existing(config, "cal_data_dir", part)) for part in parts)
    custom = content.get(CUSTOM_OP)
    if isinstance(custom, dict) and custom.get("custom_op_dir"):
        custom["custom_op_dir"] = str(_existing(config, "custom_op_dir", str(custom["custom_op_dir"])))
    return content


def _existing(config: Path, key: str, text: str) -> Path:
    """The path ``text`` beside ``config`` or from here."""
    found = next((path for path in (config.parent / text, Path(text)) if path.exists()), None)
    if found is None:
        raise ConfigError(f"{config}: {key}: {text}: no such file or folder")
    return found.resolve()


def _case_name(config: Path) -> str:
    """The name of the file, or of its folder where the file is called ``config``."""
    stem = config.stem
    return config.resolve().parent.name if stem in ("config", "c") else stem


def _keep_model(path: Path, case: Path, key: str) -> str:
    """Copy a file of the float network; data that an ONNX file keeps elsewhere are put into the copy."""
    name = {"onnx_model": "model.onnx", "caffe_model": "model.caffemodel", "prototxt": "model.prototxt"}[key]
    if key == "onnx_model" and _has_data_elsewhere(path):
        save_model(load_model(path), case / name)
    else:
        shutil.copyfile(path, case / name)
    return name


def _has_data_elsewhere(path: Path) -> bool:
    try:
        proto = onnx.load(path, load_external_data=False)
    except DecodeError as error:
        raise ModelError(f"{path}: not an ONNX model: {error}") from error
    return any(uses_external_data(tensor) for tensor in proto.graph.initializer)


def _synthetic(folder: Path, to: Path, kind: str) -> None:
    """Some files of the same names, sizes and kinds with random pixels, so that a conversion has something to measure.

    Args:
        folder: the user's calibration data.
        to: where the files appear.
        kind: ``cal_data_type``, the type of raw files.

    Raises:
        CalibrationDataError: a file is no image or no array.
    """
    to.mkdir()
    generator = np.random.default_rng(0)
    for path in sorted(folder.iterdir())[:SYNTHETIC_SAMPLES]:
        if path.suffix.lower() in IMAGE_SUFFIXES:
            with _readable(path), opened_image(path) as picture:
                width, height = picture.size
            pixels = generator.integers(0, 256, (height, width, 3), np.uint8)
            Image.fromarray(pixels).save(to / path.name)
        elif path.suffix == ".npy":
            with _readable(path):
                known = read_npy(path)
            np.save(to / path.name, generator.integers(0, 256, known.shape).astype(known.dtype))
        else:
            dtype = np.dtype(kind)
            generator.integers(0, 256, path.stat().st_size // dtype.itemsize).astype(dtype).tofile(to / path.name)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """A context in which a file that is not what its name says becomes an error that names it."""
    try:
        yield
    except ValueError as error:
        raise CalibrationDataError(f"{path}: {error}") from error


def _inputs(quantized: ir.Model, samples: int) -> dict[str, Any]:
    """Random inputs of a quantised model: pixels less 128 for images, a normal distribution for others."""
    generator, images = np.random.default_rng(0), set(image_inputs(quantized))
    found: dict[str, Any] = {}
    for index in range(samples):
        for info in describe(graph_inputs(quantized)):
            array: NDArray[Any] = generator.standard_normal(info.shape)
            if info.dtype.kind != "f":
                low, high = (-PIXEL_OFFSET, PIXEL_OFFSET - 1) if info.name in images else _limits(info.dtype)
                array = generator.integers(low, high, info.shape, endpoint=True)
            found[f"in{index}__{info.name}"] = array.astype(info.dtype)
    return found


def _save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    write_atomically(path, stream.getvalue())


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _digests(content: Mapping[str, Any], out: Path) -> dict[str, str]:
    """SHA-256 of the float network, of the calibration data by folder, and of the models that the tool wrote."""
    model = content["model_parameters"]
    found = {key: _digest([Path(str(model[key]))]) for key in MODEL_KEYS if key in model}
    folders = str(content["calibration_parameters"].get("cal_data_dir") or "").split(";")
    for index, folder in enumerate(filter(None, folders)):
        found[f"cal_{index}"] = _digest(sorted(path for path in Path(folder).iterdir() if path.is_file()))
    return found | {path.name: _digest([path]) for path in (*sorted(out.glob("*.onnx")), *sorted(out.glob("*.bin")))}


def _digest(paths: Sequence[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                found.update(block)
    return found.hexdigest()
