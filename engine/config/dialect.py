"""The newer dialect of configuration files, that of ``hb_compile``, in terms of the older one.

Inputs keep the model's layout, normalisation follows
from the values that are given, ``std_value`` may stand for ``scale_value``, calibration data are ``.npy`` files, and
``quant_config`` gathers what concerns precision.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.config.parameters import Config
from engine.config.values import split
from engine.errors import ConfigError, hint
from engine.terms import Device

logger = logging.getLogger("engine.config")

OPTIMIZE_LEVELS = ("O0", "O1", "O2")

_NONE = "None"
_ALL_LAYERS = "dump_all_layers_output"


def older_dialect(content: Mapping[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """The groups of a file of ``hb_compile`` as those of a file of ``hb_mapper``.

    Raises:
        ConfigError: a key or value is wrong; the message names file, key, value and what is allowed.
    """
    groups = {group: dict(_mapping(value, path, group)) for group, value in content.items()}
    try:
        _translate_inputs(groups.get("input_parameters", {}))
        _translate_debug(groups.get("model_parameters", {}))
        _translate_compiler(groups.get("compiler_parameters", {}))
        _translate_quant_config(groups, path.resolve().parent)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return groups


def dialect_remarks(config: Config) -> tuple[str, ...]:
    """Parameters that are legal in this dialect and have no effect.

    Raises:
        ConfigError: calibration data are no ``.npy`` files.
    """
    _check_npy(config)
    if config.calibration_parameters.cal_data_type:
        return ("cal_data_type has no effect: .npy files contain their type",)
    return ()


def _mapping(value: Any, path: Path, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path}: {where} must be a mapping, found {type(value).__name__}")
    return value


def _translate_debug(group: dict[str, Any]) -> None:
    """``debug_mode: dump_all_layers_output`` is ``layer_out_dump`` of the older dialect; others stay."""
    modes = [mode for mode in split(group.get("debug_mode")) if mode != _ALL_LAYERS]
    if len(modes) < len(split(group.get("debug_mode"))):
        group["layer_out_dump"] = True
        group["debug_mode"] = ";".join(modes) or None


def _translate_inputs(group: dict[str, Any]) -> None:
    """``std_value`` to ``scale_value``; ``norm_type`` and the layout where they are not given."""
    if "input_layout_rt" in group:
        raise ConfigError(
            "input_parameters.input_layout_rt: inputs keep the layout of the model; change it in the model"
        )
    count = max(len(split(group.get("input_type_train"))), 1)
    group.setdefault("input_layout_train", ";".join(["NCHW"] * count))
    means, scales, deviations = (_entries(group, key, count) for key in ("mean_value", "scale_value", "std_value"))
    for index, (scale, deviation) in enumerate(zip(scales, deviations, strict=True)):
        if deviation == _NONE:
            continue
        if scale != _NONE:
            raise ConfigError("input_parameters: give either scale_value or std_value for an input, not both")
        scales[index] = " ".join(repr(1.0 / value) for value in _numbers(deviation))
    group.pop("std_value", None)
    names = {(True, True): "data_mean_and_scale", (True, False): "data_mean", (False, True): "data_scale"}
    norms = [
        names.get((mean != _NONE, scale != _NONE), "no_preprocess") for mean, scale in zip(means, scales, strict=True)
    ]
    group.setdefault("norm_type", ";".join(norms))
    group["mean_value"], group["scale_value"] = ";".join(means), ";".join(scales)


def _entries(group: Mapping[str, Any], key: str, count: int) -> list[str]:
    """One text per input, ``None`` where nothing is given."""
    values = [part.strip("\"'") for part in split(group.get(key))]
    if not values:
        return [_NONE] * count
    if len(values) != count:
        raise ConfigError(f"Wrong {key} num given, {key} num {len(values)} is not equal to input num {count}")
    return values


def _numbers(text: str) -> list[float]:
    try:
        values = [float(item) for item in text.replace(",", " ").split()]
    except ValueError:
        raise ConfigError(f"input_parameters.std_value: {text!r} is neither None nor numbers") from None
    if not values or not all(value > 0 for value in values):
        raise ConfigError(f"input_parameters.std_value: {text!r}: standard deviations must be positive")
    return values


def _translate_compiler(group: dict[str, Any]) -> None:
    level = group.get("optimize_level", OPTIMIZE_LEVELS[0])
    if level not in OPTIMIZE_LEVELS:
        raise ConfigError(
            f"compiler_parameters.optimize_level: {level!r} should in list {list(OPTIMIZE_LEVELS)}"
            f"{hint(str(level), OPTIMIZE_LEVELS)}"
        )


def _translate_quant_config(content: dict[str, dict[str, Any]], folder: Path) -> None:
    """What ``quant_config`` asks, as parameters of the older dialect; those given beside it may not contradict."""
    calibration = content.get("calibration_parameters", {})
    given = calibration.pop("quant_config", None)
    if given is None:
        return
    asked = _read_quant_config(given, folder)
    requests: dict[str, Any] = {}
    options = list(split(calibration.pop("optimization", None)))
    for section, value in asked.items():
        _known("quant_config", section, _SECTIONS)(_section(section, value), requests, options)
    node_info = requests.pop("node_info", {})
    if node_info:
        model = content.setdefault("model_parameters", {})
        given_info = _section("model_parameters.node_info", model.get("node_info") or {})
        model["node_info"] = dict(given_info)
        for name, wanted in node_info.items():
            own = _section(f"model_parameters.node_info.{name}", given_info.get(name) or {})
            if own.get("InputType", wanted["InputType"]) != wanted["InputType"]:
                raise ConfigError(f"model_parameters.node_info.{name}: {own}, but quant_config says {wanted}")
            model["node_info"][name] = {**wanted, **own}
    for key, value in requests.items():
        if calibration.setdefault(key, value) != value:
            raise ConfigError(f"calibration_parameters.{key}: {calibration[key]!r}, but quant_config says {value!r}")
    if options:
        calibration["optimization"] = ";".join(dict.fromkeys(options))


def _read_quant_config(given: Any, folder: Path) -> Mapping[str, Any]:
    """A mapping in place, or the JSON file that ``given`` names."""
    if isinstance(given, Mapping):
        return given
    path = Path(str(given))
    try:
        if (folder / path).exists():
            path = folder / path
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"calibration_parameters.quant_config: {path}: no readable JSON file: {error}") from error
    return _section("quant_config", content)


def _section(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: must be a mapping, found {type(value).__name__}")
    return value


def _known(where: str, key: str, table: Mapping[str, Any]) -> Any:
    if key not in table:
        raise ConfigError(f"{where}: Wrong key {key!r} in {list(table)}{hint(key, table)}")
    return table[key]


def _model_config(section: Mapping[str, Any], requests: dict[str, Any], options: list[str]) -> None:
    for key, value in section.items():
        where = f"quant_config.model_config.{key}"
        _known(
            "quant_config.model_config",
            key,
            dict.fromkeys(("all_node_type", "activation", "weight", "model_output_type")),
        )
        if key == "all_node_type":
            if _integer_type("model_config.all_node_type", value) == "int16":
                options.append("set_all_nodes_int16")
        elif key == "model_output_type":
            options.append(f"set_model_output_{_integer_type('model_config.model_output_type', value)}")
        elif key == "activation":
            _activation(_section(where, value), requests, options)
        else:
            for name in _section(where, value):
                _known(where, name, {"bias_correction": None})
                if _bias_correction(f"{where}.{name}", value[name]):
                    options.append("bias_correction")


def _bias_correction(where: str, value: Any) -> bool:
    """Whether it is asked for: ``true``, or a section whose ``num_sample`` and ``metric`` have no effect here."""
    if isinstance(value, bool):
        return value
    for key, given in _section(where, value).items():
        _known(where, key, dict.fromkeys(("num_sample", "metric")))
        logger.warning("%s.%s %r has no effect: biases are always corrected on the last sample", where, key, given)
    return True


def _activation(section: Mapping[str, Any], requests: dict[str, Any], options: list[str]) -> None:
    allowed = dict.fromkeys(("calibration_type", "max_percentile", "per_channel", "asymmetric"))
    for key, value in section.items():
        _known("quant_config.model_config.activation", key, allowed)
        if key != "asymmetric":
            requests[key] = value
        elif value is True:
            options.append("asymmetric")
        elif value is not False:
            raise ConfigError(f"quant_config.model_config.activation.asymmetric: {value!r}: expected true or false")


def _op_config(section: Mapping[str, Any], requests: dict[str, Any], options: list[str]) -> None:
    for kind, value in section.items():
        options.append(f"run_{kind}_on_bpu")
        if _qtype(f"op_config.{kind}", value) == "int16":
            options.append(f"set_{kind}_input_int16")


def _node_config(section: Mapping[str, Any], requests: dict[str, Any], options: list[str]) -> None:
    requests["node_info"] = {
        name: {"ON": Device.BPU.value, "InputType": _qtype(f"node_config.{name}", value)}
        for name, value in section.items()
    }


def _qtype(where: str, value: Any) -> str:
    section = _section(f"quant_config.{where}", value)
    for key in section:
        _known(f"quant_config.{where}", key, {"qtype": None})
    return _integer_type(f"{where}.qtype", section.get("qtype"))


def _integer_type(where: str, value: Any) -> str:
    if value not in ("int8", "int16"):
        raise ConfigError(f"quant_config.{where}: {value!r} should in list ['int8', 'int16']")
    return str(value)


_SECTIONS: Mapping[str, Callable[[Mapping[str, Any], dict[str, Any], list[str]], None]] = {
    "model_config": _model_config,
    "op_config": _op_config,
    "node_config": _node_config,
}
"""Sections of ``quant_config``."""


def _check_npy(config: Config) -> None:
    """Calibration folders hold ``.npy`` files only."""
    for folder in config.calibration_parameters.cal_data_dir:
        try:
            paths = sorted(folder.iterdir())
        except OSError:
            continue  # whoever opens the data says what is wrong
        for path in paths:
            if os.path.isfile(path) and path.suffix.lower() != ".npy" and not path.name.startswith("."):
                raise ConfigError(f"{path}: calibration data must be .npy files")
