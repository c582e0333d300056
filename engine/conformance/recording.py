"""Recording a case: the user's own toolchain converts a model, and its inputs and results are kept."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
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
from engine.errors import CalibrationDataError, ConfigError, ModelError
from engine.fingerprint import digest_of_files
from engine.ir import load_model, save_model, write_atomically
from engine.simulate.session import image_inputs
from engine.simulate.tensors import describe, graph_inputs
from engine.toolchain.command import CUT_OFF, Command
from engine.toolchain.log import reason
from engine.toolchain.tool import Conversion, Tell, Toolchain
from engine.untrusted import opened_image, read_npy
from engine.version import installed_version

RUNS = 2
"""How many samples the quantised model is run on."""
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")
SYNTHETIC_SAMPLES = 2
"""How many random calibration samples stand in for the user's where weights are left out."""


@dataclass(frozen=True)
class Recording:
    """A case that was recorded.

    Attributes:
        folder: of the case.
        failure: why the tool converted nothing, in one line; empty where it did.
        known: whether it had been recorded before.
    """

    folder: Path
    failure: str = ""
    known: bool = False


@dataclass(frozen=True)
class CaseRecorder:
    """How cases are recorded.

    Attributes:
        tool: the command that has ``makertbin``, and how long a conversion may take.
        runtime: a Python that has ``horizon_tc_ui``; ``None`` to record no outputs.
        to: folder of the cases.
        weights: whether weights, calibration data and outputs are kept.
        resume: whether cases that are there already are left; those that were cut off are recorded again.
    """

    tool: Toolchain
    runtime: Command | None
    to: Path
    weights: bool
    resume: bool = False

    def record(self, config: Path, tell: Tell | None = None) -> Recording:
        """Convert as ``config`` asks for and keep the case, also where the tool refuses it.

        Args:
            config: configuration of the conversion.
            tell: told what the tool is at.

        Raises:
            ConfigError: the configuration cannot be read, a file that it names is missing, the case exists already, or
                the tool neither converts nor refuses.
            ModelError: a model of the tool cannot be read.
        """
        content = _absolute(config)
        folder = self.to / case_name(config)
        if folder.exists():
            code = _recorded_code(folder) if self.resume else None
            if code is None:
                raise ConfigError(f"{folder}: already exists; remove it, record into another folder, or use --resume")
            if code != CUT_OFF:
                return Recording(folder, known=True)
        self.to.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".recording-", dir=self.to) as work:
            made = Path(work) / "case"
            made.mkdir()
            failure = self._fill(made, Path(work), content, tell)
            if folder.exists():
                folder.rename(Path(work) / "cut off")
            made.rename(folder)
        return Recording(folder, failure)

    def _fill(self, case: Path, work: Path, content: dict[str, Any], tell: Tell | None) -> str:
        """Write all files of a case to ``case``; the tool works in ``work``. Why the tool failed, if it did."""
        out = work / "out"
        content["model_parameters"]["working_dir"] = str(out)
        given = work / "config.yaml"
        write_atomically(given, yaml.safe_dump(_as_seen(content, self.tool.command), sort_keys=False).encode())
        kind = "onnx" if "onnx_model" in content["model_parameters"] else "caffe"
        folders = _user_folders(content)
        done = self.tool.convert(given, out, kind=kind, tell=tell, folders=folders)
        if done.failure and not done.finished.code:
            raise ConfigError(f"{self.tool.command.name}: {done.failure}")
        written = {name: done.models.get(name) for name in _KEPT}
        digests = _digests(content, out)
        self._keep_models(case, written)
        self._keep_given(case, content)
        if self.weights and written["quantized"] is not None:
            self._run(case, work)
        result = {
            "net": str(content["model_parameters"].get("output_model_file_prefix") or "model"),
            **self._result(done, work),
            "sha256": digests,
        }
        write_atomically(case / RECORDED, json.dumps(result, indent=1).encode())
        return done.failure

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
        script = work / "original_outputs.py"
        script.write_bytes((files("engine.toolchain") / script.name).read_bytes())
        arguments = [self.runtime.path(path) for path in (script, case / "quantized.onnx", given, to)]
        done = self.runtime.run(arguments, work, self.tool.time_limit, stop=self.tool.stop)
        if done.code or not to.is_file():
            why = reason(done, {str(work): "."})
            raise ConfigError(f"--runtime: the quantised model could not be run, exit code {done.code}: {why}")
        _save_arrays(case / "io.npz", inputs | read_arrays(to))

    def _result(self, done: Conversion, work: Path) -> dict[str, Any]:
        return {
            "recorded_by": f"ptqlab {installed_version()}",
            "tool": {"version": self.tool.version(work), "named_in_log": done.log.versions},
            "weights": self.weights,
            "rc": done.finished.code,
            "failure": done.failure,
            "nodes": done.log.nodes,
            "outputs": done.log.outputs,
            "subgraphs_us_ddr": done.log.subgraphs,
            "messages": done.log.messages,
            "tail": done.log.tail if done.finished.code else (),
        }


_KEPT = ("calibrated", "quantized")
"""Models of the tool that a case keeps."""


def _recorded_code(folder: Path) -> int | None:
    """The exit code of the case in ``folder``; None where there is none that can be read."""
    try:
        return int(json.loads((folder / RECORDED).read_text(encoding="utf-8"))["rc"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _user_folders(content: Mapping[str, Any]) -> dict[str, str]:
    """Folders of the user's that the tool may name, with what is kept of them."""
    model, calibration = content["model_parameters"], content["calibration_parameters"]
    files = [Path(str(model[key])) for key in MODEL_KEYS if key in model]
    data = [Path(part) for part in str(calibration.get("cal_data_dir") or "").split(";") if part]
    custom = content.get(CUSTOM_OP)
    operators = [str(custom["custom_op_dir"])] if isinstance(custom, dict) and custom.get("custom_op_dir") else []
    return {
        **{str(path.parent): "." for path in files},
        **{str(path): f"./cal_{index}" for index, path in enumerate(data)},
        **dict.fromkeys(operators, "./custom_op"),
    }


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


def _as_seen(content: Mapping[str, Any], command: Command) -> dict[str, Any]:
    """``content`` with the paths that ``command`` sees.

    Raises:
        ConfigError: it does not see one of them.
    """
    seen = {name: dict(group) if isinstance(group, Mapping) else group for name, group in content.items()}
    model, calibration = seen["model_parameters"], seen["calibration_parameters"]
    for key in (*MODEL_KEYS, "working_dir"):
        if key in model:
            model[key] = command.path(Path(model[key]))
    if folders := str(calibration.get("cal_data_dir") or ""):
        calibration["cal_data_dir"] = ";".join(command.path(Path(part)) for part in folders.split(";"))
    custom = seen.get(CUSTOM_OP)
    if isinstance(custom, dict) and custom.get("custom_op_dir"):
        custom["custom_op_dir"] = command.path(Path(custom["custom_op_dir"]))
    return seen


def _existing(config: Path, key: str, text: str) -> Path:
    """The path ``text`` beside ``config`` or from here."""
    found = next((path for path in (config.parent / text, Path(text)) if path.exists()), None)
    if found is None:
        raise ConfigError(f"{config}: {key}: {text}: no such file or folder")
    return found.resolve()


def case_name(config: Path) -> str:
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
    found = {key: digest_of_files([Path(str(model[key]))]) for key in MODEL_KEYS if key in model}
    folders = str(content["calibration_parameters"].get("cal_data_dir") or "").split(";")
    for index, folder in enumerate(filter(None, folders)):
        found[f"cal_{index}"] = digest_of_files(sorted(path for path in Path(folder).iterdir() if path.is_file()))
    return found | {
        path.name: digest_of_files([path]) for path in (*sorted(out.glob("*.onnx")), *sorted(out.glob("*.bin")))
    }
