"""Recorded conversions on disk: what the original toolchain was given and what it made of it.

Two forms of a case are read. The *recorded* form, which ``ptqlab conformance record`` writes: ``config.yaml``,
``result.json``, ``calibrated.onnx``, ``quantized.onnx``, ``io.npz``, the float model beside it or elsewhere, and
folders of calibration data or ``calibration.npz`` (``data``: samples of the only input, used as float32). The *reduced*
form, networks of a few nodes that show one rule: ``c.yaml``, ``expected.json``, ``expected_*.onnx``, ``inputs.npz``,
``expected_outputs.npz``, and folders of calibration data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.config import read_yaml
from engine.errors import ConfigError
from engine.toolchain.command import CUT_OFF

Array = NDArray[Any]

RECORDED, REDUCED = "result.json", "expected.json"
"""The file that tells the form of a case."""
MODEL_KEYS = ("onnx_model", "caffe_model", "prototxt")
"""Parameters of group ``model_parameters`` that name a file of the float network."""
CUSTOM_OP = "custom_op"
"""Group of the configuration that names Python files."""
PIXEL_OFFSET = 128
"""What int8 image inputs are below the pixels."""
PRINTED_LENGTH = 50
"""Characters of the longest name that the original's node table prints whole."""

_EMPTY_ERROR = re.compile(r"exception in command")


@dataclass(frozen=True)
class RecordedSample:
    """One run of the original's quantised model.

    Attributes:
        inputs: by name, as the model takes them.
        outputs: by name, as its own simulator gave them.
    """

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


@dataclass(frozen=True)
class RecordedCase:
    """One conversion by the original.

    Attributes:
        folder: where its files are.
        name: of the case, unique in its folder.
        family: the network, whatever the march and options.
        march: BPU architecture.
        config: its configuration file.
        reduced: whether it is of the reduced form; such cases are never held out.
        has_weights: whether its models hold the network's weights; else only their structure and thresholds are real.
        refusal: why the original refused it; empty where it did not.
        devices: ``BPU`` or ``CPU`` by :func:`printed_name` of a node of the original's node table.
        latencies_us: of its BPU subgraphs; empty where it was not compiled, or cut off while it was.
        damage: why the case cannot be read; empty where it can.
    """

    folder: Path
    name: str
    family: str
    march: str
    config: Path
    reduced: bool
    has_weights: bool
    refusal: str
    devices: Mapping[str, str]
    latencies_us: tuple[float, ...]
    damage: str = ""

    @property
    def calibrated(self) -> Path:
        """The original's calibrated model; need not exist."""
        return self.folder / ("expected_calibrated.onnx" if self.reduced else "calibrated.onnx")

    @property
    def corrects_biases(self) -> bool:
        """Whether the option ``bias_correction`` is on, whose order the original leaves to chance.

        Raises:
            ConfigError: the configuration cannot be read.
        """
        asked = str(_group(dict(read_yaml(self.config)), "calibration_parameters").get("optimization") or "")
        return "bias_correction" in [word.strip() for word in asked.split(";")]

    @property
    def quantized(self) -> Path:
        """The original's quantised model; need not exist."""
        return self.folder / ("expected_quantized.onnx" if self.reduced else "quantized.onnx")

    def parameters(self, folder: Path) -> dict[str, Any]:
        """The content of the configuration file for a conversion that writes below ``folder``.

        Calibration data that the case keeps in ``calibration.npz`` are written there too. Python files that register
        operators are left out: a case may come from anyone, and they would be executed.

        Raises:
            ConfigError: the file cannot be read.
        """
        content = {name: group for name, group in read_yaml(self.config).items() if name != CUSTOM_OP}
        model = _group(content, "model_parameters")
        for key in MODEL_KEYS:
            if key in model:
                model[key] = str((self.config.parent / str(model[key])).resolve())
        model["working_dir"] = str(folder / "out")
        calibration = _group(content, "calibration_parameters")
        if wanted := str(calibration.get("cal_data_dir") or ""):
            parts = [part.strip() for part in wanted.split(";")]
            calibration["cal_data_dir"] = ";".join(self._data_folders(parts, folder))
        return content

    def samples(self) -> tuple[RecordedSample, ...]:
        """What the original computed; empty where the case keeps no runs.

        Raises:
            ConfigError: a file is damaged.
        """
        return _reduced_samples(self.folder) if self.reduced else _recorded_samples(self.folder / "io.npz")

    def _data_folders(self, parts: list[str], folder: Path) -> list[str]:
        archive = self.folder / "calibration.npz"
        if not archive.is_file():
            return [str((self.config.parent / part).resolve()) for part in parts]
        to = folder / "calibration_data"
        to.mkdir(parents=True)
        for sample, array in enumerate(read_arrays(archive)["data"]):
            np.asarray(array, np.float32).tofile(to / f"{sample:04}.bin")
        return [str(to)]


def printed_name(name: str) -> str:
    """``name`` of a node as the original's node table prints it: dots and the last 47 characters of more than 50.

    77 of the 5,514 names in the tables of ``networks/cases`` begin with dots: all have 50 characters, no other over 48.
    """
    return name if len(name) <= PRINTED_LENGTH else f"...{name[3 - PRINTED_LENGTH :]}"


def find_cases(folder: Path) -> tuple[RecordedCase, ...]:
    """All cases at and below ``folder``, by name.

    Raises:
        ConfigError: there is none, or one cannot be read.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of recorded cases")
    found = [_read(path) for name in (RECORDED, REDUCED) for path in folder.rglob(name)]
    if not found:
        raise ConfigError(f"{folder}: holds no recorded case, expected folders with {RECORDED} or {REDUCED}")
    return tuple(sorted(found, key=lambda case: (case.reduced, case.name)))


def float_model(case: RecordedCase) -> Path | None:
    """The ONNX file of the float network that the configuration of ``case`` names."""
    model = _group(read_yaml(case.config), "model_parameters").get("onnx_model")
    return None if model is None else (case.config.parent / str(model)).resolve()


def _read(path: Path) -> RecordedCase:
    """The case whose form the file ``path`` tells; one that cannot be read says why."""
    reduced = path.name == REDUCED
    name, config = path.parent.name, path.parent / ("c.yaml" if reduced else "config.yaml")
    family = re.sub(r"_(bayes-e|bayes|bernoulli2)_.*$", "", name) if reduced else name
    unread = RecordedCase(path.parent, name, family, "", config, reduced, True, "", {}, ())
    try:
        content = _read_json(path)
        model = _group(read_yaml(config), "model_parameters")
        known = replace(unread, march=str(model.get("march", "")), damage=_missing(config, model))
        return _reduced(known, content) if reduced else _recorded(known, content)
    except ConfigError as error:
        return replace(unread, damage=str(error))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return replace(unread, damage=f"{path}: is no result of a conversion: {type(error).__name__}: {error}")


def _missing(config: Path, model: Mapping[str, Any]) -> str:
    """The message for a network that is missing where ``config`` names it; empty where it exists."""
    missing = [
        str(model[key]) for key in MODEL_KEYS if key in model and not (config.parent / str(model[key])).is_file()
    ]
    return f"{config}: the network {', '.join(missing)} is not there" if missing else ""


def _recorded(case: RecordedCase, content: Mapping[str, Any]) -> RecordedCase:
    code, messages = content.get("rc", 0), list(content.get("messages", ()))
    reasons = [text for text in messages if str(text).startswith("ERROR") and not _EMPTY_ERROR.search(str(text))]
    refused = code not in (0, CUT_OFF)
    return replace(
        case,
        family=str(content.get("net") or case.name),
        has_weights=bool(content.get("weights", True)),
        refusal=str(content.get("failure") or (reasons[-1] if reasons else f"exit code {code}")) if refused else "",
        devices={printed_name(str(row["Node"])): str(row["ON"]) for row in content.get("nodes", ())},
        latencies_us=()
        if code == CUT_OFF
        else tuple(float(part["latency"]) for part in content.get("subgraphs_us_ddr", ())),
    )


def _reduced(case: RecordedCase, content: Mapping[str, Any]) -> RecordedCase:
    errors = [str(text) for text in content.get("messages", ()) if str(text).startswith("ERROR")]
    performance = content.get("performance") or {}
    compiled = bool(performance.get("n"))
    return replace(
        case,
        refusal=errors[-1] if errors and not compiled else "",
        devices={printed_name(str(row["Node"])): str(row["ON"]) for row in dict(content.get("nodes") or {}).values()},
        latencies_us=(float(performance["us"]),) if compiled else (),
    )


def read_arrays(path: Path) -> dict[str, Array]:
    """All arrays of an ``.npz`` file.

    Raises:
        ConfigError: it is damaged or holds anything but plain arrays.
    """
    try:
        with np.load(path, allow_pickle=False) as data:
            return {key: data[key] for key in data.files}
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise ConfigError(f"{path}: is no archive of plain arrays ({type(error).__name__})") from error


def _recorded_samples(path: Path) -> tuple[RecordedSample, ...]:
    """``in{i}`` or ``in{i}__{input}``, and ``out{i}_{j}`` of output ``names[j]`` or ``out{i}__{output}``."""
    if not path.is_file():
        return ()
    arrays = read_arrays(path)
    names = [str(name) for name in arrays.get("names", ())]
    found = []
    index = 0
    while inputs := _keyed(arrays, f"in{index}"):
        outputs = _keyed(arrays, f"out{index}")
        outputs |= {
            name: arrays[f"out{index}_{position}"]
            for position, name in enumerate(names)
            if f"out{index}_{position}" in arrays
        }
        found.append(RecordedSample(inputs, outputs))
        index += 1
    return tuple(found)


def _keyed(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """The arrays ``prefix__NAME`` by name; ``prefix`` alone, the only input, has the name ``""``."""
    named = {key.removeprefix(f"{prefix}__"): array for key, array in arrays.items() if key.startswith(f"{prefix}__")}
    return {"": arrays[prefix]} if prefix in arrays else named


def _reduced_samples(folder: Path) -> tuple[RecordedSample, ...]:
    """``{i}__{tensor}`` in both files; image inputs are pixels."""
    if not (folder / "expected_outputs.npz").is_file() or not (folder / "inputs.npz").is_file():
        return ()
    inputs, outputs = read_arrays(folder / "inputs.npz"), read_arrays(folder / "expected_outputs.npz")
    fed = {key: _as_int8(array) for key, array in inputs.items()}
    return tuple(
        RecordedSample(_keyed(fed, str(index)), _keyed(outputs, str(index)))
        for index in range(int(inputs.get("n", np.asarray(0))))
        if _keyed(outputs, str(index))
    )


def _as_int8(array: Array) -> Array:
    return (array.astype(np.int16) - PIXEL_OFFSET).astype(np.int8) if array.dtype == np.uint8 else array


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected an object of JSON")
    return content


def _group(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    group = content.get(name)
    if not isinstance(group, dict):
        raise ConfigError(f"{name}: expected a group of parameters")
    return group
