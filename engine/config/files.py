"""Reading a conversion's YAML file, and what is wrong with it in the words of the documents."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from engine.chips import HB_COMPILE_MARCHES, HB_MAPPER_MARCHES, ChipFamily, load_chip
from engine.config.dialect import dialect_remarks, older_dialect
from engine.config.options import CalibrationChoice, ConversionOptions
from engine.config.parameters import GROUPS, CompilerParameters, Config
from engine.errors import ConfigError, hint
from engine.limits import beyond, limit
from engine.terms import CalibrationType, Compatibility

logger = logging.getLogger("engine.config")


def load_config(path: str | os.PathLike[str], *, newer_dialect: bool | None = None) -> Config:
    """Read and check a conversion's YAML file.

    Args:
        path: the file.
        newer_dialect: whether it is in the dialect of ``hb_compile`` (:mod:`engine.config.dialect`), else in that of
            ``hb_mapper``, which does not have the marches of the S100. None: a file that names one of those is.

    Raises:
        ConfigError: the file cannot be read or is wrong; the message names file, key, value and what is allowed.
    """
    content = read_yaml(path)
    march = _march_of(content)
    newer = march in list(HB_COMPILE_MARCHES) if newer_dialect is None else newer_dialect
    if march in list(HB_COMPILE_MARCHES) and not newer:
        allowed = [item.value for item in HB_MAPPER_MARCHES]
        raise ConfigError(
            f"{path}: User input march invalid: {march!r} . It should in list {allowed}; hb_compile converts for it"
        )
    if newer:
        content = older_dialect(content, Path(path))
    config = parse_config(content, path, batch_of_several_inputs=newer)
    for remark in (*remarks(config), *(dialect_remarks(config) if newer else ())):
        logger.warning("%s: %s", path, remark)
    return config


def _march_of(content: Mapping[str, Any]) -> Any:
    group = content.get("model_parameters")
    return group.get("march") if isinstance(group, Mapping) else None


def remarks(config: Config) -> tuple[str, ...]:
    """Parameters that are legal and have no effect, or have a newer form."""
    calibration, model = config.calibration_parameters, config.model_parameters
    found = []
    if "max_percentile" in calibration.model_fields_set and calibration.calibration_type is not CalibrationType.MAX:
        found.append(f"max_percentile has no effect, calibration_type is {calibration.calibration_type.value}")
    elif "max_percentile" in calibration.model_fields_set and "mse_thresholds" in calibration.optimization:
        found.append("max_percentile has no effect, mse_thresholds replaces the method")
    if calibration.bias_correction_order is not None and "bias_correction" not in calibration.optimization:
        found.append("bias_correction_order has no effect without bias_correction")
    elif calibration.bias_correction_order is not None and config.model_parameters.compatibility == Compatibility.CLEAN:
        found.append("bias_correction_order has no effect where compatibility is clean: all are corrected at once")
    if not calibration.calibration_type.needs_data:
        idle = [option for option in calibration.optimization if option in _OF_CALIBRATION]
        idle += ["integer_bias_correction"] if _corrects_without_data(config) else []
        idle += [key for key in ("per_channel", "corrections") if getattr(calibration, key)]
        idle += _of_data(config) if calibration.calibration_type is CalibrationType.SKIP else []
        found += [f"{key} has no effect, calibration_type is {calibration.calibration_type.value}" for key in idle]
    if load_chip(config.march).family is not ChipFamily.BERNOULLI:
        older = {
            "set_node_data_type": model.set_node_data_type,
            "run_on_cpu": calibration.run_on_cpu,
            "run_on_bpu": calibration.run_on_bpu,
        }
        found += [f"{key} is the older form of node_info" for key, given in older.items() if given]
    elif model.node_info:
        found.append("node_info is not documented for bernoulli2; run_on_cpu and run_on_bpu say where its nodes run")
    return (*found, *_of_compiler(config.compiler_parameters))


def _of_compiler(compiler: CompilerParameters) -> Iterator[str]:
    """Compiler parameters that only matter to the original."""
    if compiler.jobs is not None:
        yield "jobs has no effect: the compiler uses one process"
    if compiler.input_source:
        yield "input_source has no effect on results or estimates: inputs are always read from memory"


def _corrects_without_data(config: Config) -> bool:
    calibration = config.calibration_parameters
    without = not calibration.cal_data_dir or calibration.calibration_type is CalibrationType.SKIP
    return without and "integer_bias_correction" in calibration.optimization


def _of_data(config: Config) -> list[str]:
    """Given parameters that concern calibration data."""
    given = {
        "cal_data_dir": config.calibration_parameters.cal_data_dir,
        "debug_mode": config.model_parameters.debug_mode,
    }
    return [key for key, value in given.items() if value]


_OF_CALIBRATION = frozenset(ConversionOptions.switches()) & CalibrationChoice.model_fields.keys()
"""Options of ``optimization`` that change how thresholds and weights follow from the data."""

_MOST_LEVELS = 50


_MERGE = "tag:yaml.org,2002:merge"


_REPEATED = "node_info"
"""Key that published configurations, made from the vendor's own, give twice: the last one counts."""


class _ShallowLoader(yaml.SafeLoader):
    """Plain values, each key once, but ``node_info``, of which the last counts.

    Deep nesting is refused: it costs PyYAML quadratic time, then the stack.
    """

    _level = 0
    _merged = 0

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._flattening: list[yaml.MappingNode] = []

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """As in the base class, counting levels."""
        if self._level >= _MOST_LEVELS:
            raise yaml.composer.ComposerError(None, None, f"more than {_MOST_LEVELS} levels", None)
        self._level += 1
        node = super().compose_node(parent, index)
        self._level -= 1
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """As the base class, counting what merge keys copy: merges of merges multiply as aliases do."""
        if node in self._flattening:  # it merges itself
            return
        self._flattening.append(node)
        for key, value in list(node.value):
            if key.tag == _MERGE:
                parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
                for part in parts:
                    if isinstance(part, yaml.MappingNode):
                        self.flatten_mapping(part)
                        self._merged += len(part.value)
                if self._merged > limit("YAML_VALUES"):
                    raise yaml.constructor.ConstructorError(
                        None, None, f"its merge keys copy {beyond('YAML_VALUES')}", key.start_mark
                    )
        super().flatten_mapping(node)
        self._flattening.pop()

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As in the base class, which would keep the last of equal keys."""
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in keys and key.value == _REPEATED:
                    logger.warning(
                        "line %d: key %r is given twice; the last one counts", key.start_mark.line + 1, key.value
                    )
                elif key.value in keys:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key {key.value!r} is given twice", key.start_mark
                    )
                keys.add(key.value)
        return super().construct_mapping(node, deep)


def load_yaml(path: str | os.PathLike[str]) -> object:
    """The content of a YAML file: plain values only, of bounded size also where aliases repeat them.

    Raises:
        ConfigError: the file cannot be read, is no YAML, is nested too deeply or holds too much.
    """
    try:
        if Path(path).stat().st_size > limit("YAML_BYTES"):  # PyYAML takes about a second per megabyte
            raise ConfigError(f"{path}: has {beyond('YAML_BYTES')}")
        content = yaml.load(Path(path).read_text(encoding="utf-8"), _ShallowLoader)  # noqa: S506 - a SafeLoader
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read: {error}; save it as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        remedy = "; indent with blanks, not with tabs" if "'\\t'" in str(error) else ""
        raise ConfigError(f"{path}: is not valid YAML: {' '.join(str(error).split())}{remedy}") from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # PyYAML's of tags that do not fit a value
        raise ConfigError(f"{path}: is not valid YAML: {error!r}") from error
    _check_size(content, path)
    return content


def _check_size(content: object, path: str | os.PathLike[str]) -> None:
    """Refuse files that expand to more than a million values: a few aliases of aliases can mean billions."""
    waiting, count, most = [content], 1, limit("YAML_VALUES")
    while waiting:
        value = waiting.pop()
        parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
        waiting.extend(parts)
        count += len(parts)
        if count > most:
            raise ConfigError(f"{path}: holds {beyond('YAML_VALUES')}")


def read_yaml(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Read a YAML file of parameter groups, unchecked.

    Raises:
        ConfigError: the file cannot be read or holds something else.
    """
    content = load_yaml(path)
    if not isinstance(content, Mapping):
        found = "nothing (ptqlab config prints a template)" if content is None else type(content).__name__
        raise ConfigError(f"{path}: must hold the groups {', '.join(Config.model_fields)}, found {found}")
    return content


def parse_config(
    content: Mapping[str, Any], path: str | os.PathLike[str] = "config", *, batch_of_several_inputs: bool = False
) -> Config:
    """Check the groups of a conversion that were read from ``path``.

    Args:
        content: parameters by group.
        path: what messages name, and whose folder paths are relative to.
        batch_of_several_inputs: whether ``input_batch`` may go with several inputs.

    Raises:
        ConfigError: as :func:`load_config`.
    """
    folder = Path(path).resolve().parent
    try:
        return Config.model_validate(
            content, context={"folder": folder, "batch_of_several_inputs": batch_of_several_inputs}
        )
    except ValidationError as error:
        raise ConfigError("\n".join(f"{path}: {_explain(detail)}" for detail in error.errors())) from error


def _explain(error: ErrorDetails) -> str:
    """One pydantic error in the words of the original where it has some."""
    location = [str(part) for part in error["loc"]]
    where, owner, key = ".".join(location), ".".join(location[:-1]), location[-1] if location else ""
    of_owner = f"Key {owner!r} error: " if owner else ""
    match error["type"]:
        case "missing":
            return f"{of_owner}Missing key: {key!r}"
        case "extra_forbidden":
            allowed = _allowed_keys(location[:-1])
            return f"{of_owner}Wrong key {key!r} in {allowed}{hint(key, allowed)}"
        case "value_error":
            message = str(error["ctx"]["error"])
            return f"{where}: {message}" if where else message
        case "enum" | "literal_error":
            expected = error["ctx"]["expected"].replace(" or ", ", ")
            near = hint(str(error["input"]), re.findall(r"'([^']*)'", expected))
            return f"{where}: {error['input']!r} should in list [{expected}]{near}"
        case "invalid_key":
            return f"{owner}: the key {error['input']!r} is no text: {_UNQUOTED}"
        case _:
            return f"{where}: {error['input']!r}: {error['msg']}"


_UNQUOTED = (
    "YAML reads ON, OFF, YES, NO and numbers without quotes as truth values and numbers; write the key in quotes, as "
    "in 'ON': BPU"
)


def _allowed_keys(owner: Sequence[str]) -> list[str]:
    """Keys of the file, of a parameter group, or of one node in ``node_info``."""
    if not owner:
        return list(Config.model_fields)
    if len(owner) > 1:
        return ["ON", "InputType", "InputType0", "InputType1", "OutputType"]
    return list(GROUPS[owner[0]].model_fields)
