"""What a configuration asks of each stage, in the stage's own terms."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx_ir as ir
from pydantic import BaseModel, ValidationError

from engine.calibrate import CalibrationOptions, FolderData, open_folders
from engine.compile import CompileOptions
from engine.config import Config, InputSpec, NodeInfo
from engine.errors import ConfigError
from engine.frontend.prepared import given_thresholds, given_types
from engine.place import NodeTypes, PlacementOptions, place
from engine.terms import CalibrationType

logger = logging.getLogger("engine.convert")


def node_requests(node_info: Mapping[str, NodeInfo]) -> dict[str, NodeTypes]:
    """``node_info`` as the placement takes it."""
    return {
        name: NodeTypes(
            on=info.on and info.on.value,
            input_type=info.input_type and info.input_type.value,
            input_types={index: kind.value for index, kind in info.input_types.items()},
            output_type=info.output_type and info.output_type.value,
        )
        for name, info in node_info.items()
    }


def placement_options(config: Config, optimized: ir.Model) -> PlacementOptions:
    """What ``config`` asks of the placement; options by operator type become requests for all nodes of that type.

    ``node_info`` wins over ``set_node_data_type``, that over ``optimization``, each for the types that it gives.
    """
    requests = node_requests(config.model_parameters.node_info)
    for name, kind in config.model_parameters.set_node_data_type.items():
        _add_request(requests, name, output_type=kind.value)
    if config.calibration_parameters.calibration_type is CalibrationType.LOAD:
        _add_given_types(requests, optimized)
    options = config.calibration_parameters.optimization
    for option, op_type, side in ((option, *match.groups()) for option in options if (match := _BY_TYPE.match(option))):
        names = [str(node.name) for node in optimized.graph if node.op_type == op_type]
        for name in names:
            _add_request(requests, name, **{f"{side}_type": "int16"})
        if not names:
            logger.warning("optimization %s has no effect: the optimised model has no %s", option, op_type)
    output_types = [kind for kind in ("int8", "int16") if f"set_model_output_{kind}" in options]
    return PlacementOptions(
        node_info=requests,
        run_on_cpu=frozenset(config.calibration_parameters.run_on_cpu),
        run_on_bpu=frozenset(config.calibration_parameters.run_on_bpu) | _run_fast(config, optimized),
        output_type=output_types[0] if output_types else None,
    )


_BY_TYPE = re.compile(r"set_(?!model_output)(\w+)_(input|output)_int16$")


def _add_request(requests: dict[str, NodeTypes], name: str, **types: str) -> None:
    """Ask for ``types`` of node ``name`` where nothing else is asked for."""
    known = requests.get(name, NodeTypes())
    missing: dict[str, Any] = {key: kind for key, kind in types.items() if getattr(known, key) is None}
    requests[name] = replace(known, **missing)


def _add_given_types(requests: dict[str, NodeTypes], optimized: ir.Model) -> None:
    """Ask for int16 where the model's file says so, and for integers at outputs that it calibrates."""
    types, given = given_types(optimized), given_thresholds(optimized)
    for node in optimized.graph:
        known = requests.get(str(node.name), NodeTypes())
        wide = {
            index: "int16"
            for index, value in enumerate(node.inputs)
            if value is not None and types.get(str(value.name)) == "int16" and known.input_type is None
        }
        if wide:
            requests[str(node.name)] = replace(known, input_types=wide | dict(known.input_types))
        for value in node.outputs:
            if value.is_graph_output() and value.name in given:
                _add_request(requests, str(node.name), output_type=types.get(str(value.name), "int8"))


def _run_fast(config: Config, optimized: ir.Model) -> frozenset[str]:
    """Nodes that option ``run_fast`` sends to the BPU: all that can run there, save those that are asked elsewhere."""
    if "run_fast" not in config.calibration_parameters.optimization:
        return frozenset()
    placed = {name for name, info in config.model_parameters.node_info.items() if info.on is not None}
    names = {str(node.name) for node in optimized.graph} - placed - set(config.calibration_parameters.run_on_cpu)
    refused = place(optimized, config.march.value, PlacementOptions(run_on_bpu=frozenset(names))).refusals
    return frozenset(names - {refusal.node for refusal in refused})


def calibration_options(config: Config) -> CalibrationOptions:
    """How ``config`` wants thresholds to be chosen.

    Raises:
        ConfigError: options exclude each other.
    """
    given = config.calibration_parameters
    try:
        return CalibrationOptions(
            calibration_type=given.calibration_type,
            max_percentile=given.max_percentile,
            per_channel=given.per_channel,
            **{name: True for name in given.optimization if name in CalibrationOptions.model_fields},
        )
    except ValidationError as error:
        reasons = "; ".join(str(detail["msg"]).removeprefix("Value error, ") for detail in error.errors())
        raise ConfigError(f"calibration_parameters.optimization: {reasons}") from error


def compile_options(config: Config) -> CompileOptions:
    """The ``compiler_parameters`` of a conversion."""
    given = config.compiler_parameters
    return CompileOptions(
        optimize_level=given.optimize_level,
        compile_mode=given.compile_mode,
        core_num=given.core_num,
        debug=given.debug,
        input_source=given.input_source,
        max_time_per_fc=given.max_time_per_fc,
        jobs=given.jobs,
    )


def open_data(config: Config, source: ir.Model, specs: tuple[InputSpec, ...]) -> FolderData | None:
    """The calibration data of ``config``; ``None`` where its method needs none and none are given."""
    calibration = config.calibration_parameters
    if not calibration.calibration_type.needs_data and not calibration.cal_data_dir:
        return None
    data = open_folders(
        source, specs, calibration.cal_data_dir, calibration.cal_data_type, preprocess_on=calibration.preprocess_on
    )
    logger.info("There are %d samples in the calibration data set.", len(data))
    for doubt in data.doubts():
        logger.warning("%s.", doubt)
    for file, md5 in data.first_files().items():
        logger.info("md5 of the first calibration file %s: %s", file, md5)
    return data


def parameters_as_text(config: Config) -> dict[str, dict[str, str]]:
    """The parameters that ``config`` gives, by group, as a ``.bin`` keeps them."""
    return {
        group: {key: _as_text(getattr(parameters, key)) for key in sorted(parameters.model_fields_set)}
        for group in type(config).model_fields
        if isinstance(parameters := getattr(config, group), BaseModel)
    }


def _as_text(value: object) -> str:
    if isinstance(value, tuple) and value and all(isinstance(item, int) for item in value):
        return "x".join(map(str, value))
    if isinstance(value, tuple):
        return ";".join(_as_text(item) for item in value)
    if isinstance(value, Mapping):
        return json.dumps({str(key): _as_text(item) for key, item in value.items()})
    return str(value.resolve() if isinstance(value, Path) else value)
