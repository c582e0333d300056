"""What a configuration asks of the placement, in its own terms."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from engine.chips import load_chip
from engine.config import Config, NodeInfo
from engine.errors import UnsupportedError
from engine.facts.moves import is_passive, moved_to
from engine.frontend.prepared import given_thresholds, given_types
from engine.frontend.trained import MARK_TRAINED, why_not_trained
from engine.ops.registry import rule_for
from engine.place import NodeTypes, PlacementOptions, place
from engine.terms import CalibrationType, Device

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

    Raises:
        UnsupportedError: the model is from quantisation-aware training, and its scales are not used or cannot be.
    """
    refused = why_not_trained(optimized, config.calibration_parameters.calibration_type is CalibrationType.LOAD)
    if refused is not None:
        raise UnsupportedError(refused)
    requests = node_requests(config.model_parameters.node_info)
    for name, kind in config.model_parameters.set_node_data_type.items():
        _add_request(requests, name, output_type=kind.value)
    is_loaded = config.calibration_parameters.calibration_type is CalibrationType.LOAD
    if is_loaded:
        _add_given_types(requests, optimized)
    options = config.calibration_parameters.optimization
    _ask_by_type(config, optimized, requests)
    without = _ask_all_int16(config, optimized, requests) if "set_all_nodes_int16" in options else frozenset()
    if "lstm_batch_last" in options:
        logger.warning("optimization lstm_batch_last has no effect: what it changes was not measured")
    output_types = [kind for kind in ("int8", "int16") if f"set_model_output_{kind}" in options]
    march = config.model_parameters.march
    if "int8" in output_types and not load_chip(march).int8_outputs:
        logger.warning("optimization set_model_output_int8 has no effect on march %s", march.value)
        output_types.remove("int8")
    if is_loaded and not output_types and _are_outputs_int8(optimized):
        output_types = ["int8"]
    calibration = config.calibration_parameters
    return PlacementOptions(
        node_info=requests,
        run_on_cpu=frozenset(calibration.run_on_cpu),
        run_on_bpu=frozenset(calibration.run_on_bpu) | _by_type(config, optimized) | _run_fast(config, optimized),
        output_type=output_types[0] if output_types else None,
        without_int16=without,
        compatibility=config.model_parameters.compatibility,
    )


_BY_TYPE = re.compile(r"set_(?!model_output)(\w+)_(input|output)_(int8|int16)$")
_ON_BPU = re.compile(r"run_(\w+)_on_bpu$")


def _ask_by_type(config: Config, optimized: ir.Model, requests: dict[str, NodeTypes]) -> None:
    """Add what options ``set_<OpType>_<side>_<type>`` ask of all nodes of a type.

    int8 of either side asks for the BPU: published configurations send their Softmax there by
    ``set_Softmax_input_int8``; their documents call both sides equivalent, and their logs show integers of 8 bits.
    """
    found = [match for option in config.calibration_parameters.optimization if (match := _BY_TYPE.match(option))]
    for match in sorted(found, key=lambda match: match[3]):  # int16 first: int8 of the other side leaves it
        option, (op_type, side, kind) = match[0], match.groups()
        names = [str(node.name) for node in optimized.graph if node.op_type == op_type]
        for name in names:
            if kind == "int16":
                _add_request(requests, name, **{f"{side}_type": kind})
            elif name not in _placed_by_name(config):
                _add_request(requests, name, on=Device.BPU, input_type=kind)
        if names:
            logger.info("The %s of all %s nodes are set to : %s", side, op_type, kind)
        else:
            logger.warning("optimization %s has no effect: the optimised model has no %s", option, op_type)


def _ask_all_int16(config: Config, optimized: ir.Model, requests: dict[str, NodeTypes]) -> frozenset[str]:
    """Ask for int16 inputs of all nodes that have them, and for the BPU where an operator runs there on request alone.

    So the original has every Softmax (5 in 4 of 4 networks drawn, on bayes-e and bayes). What has no int16 is not
    asked: a Resize or pool at the end stays on the CPU, which a request by name keeps on the BPU (3 of 3). What turns
    values is asked at the end alone: what it gives a MatMul is int8.

    Returns:
        Names of the nodes that would have been asked, but have no int16: the original warns of each (2 of 2).
    """
    placed, without = _placed_by_name(config), set()
    for node in optimized.graph:
        name, rule = str(node.name), rule_for(node)
        is_turned = node.op_type in _TURNING and not _is_moved_to_output(node.outputs[0])
        if not is_turned and (rule is None or rule.int16_inputs):
            requests.setdefault(name, NodeTypes(by_name=False))
            _add_request(requests, name, input_type="int16")
        elif not is_turned and requests.get(name, NodeTypes()).input_type is None:
            without.add(name)
        if rule is not None and rule.on_request and name not in placed:
            _add_request(requests, name, on=Device.BPU)
    return frozenset(without)


def _is_moved_to_output(value: ir.Value) -> bool:
    return any(moved.is_graph_output() for moved in moved_to(value, is_passive))


_TURNING = frozenset({"Gather", "Reshape", "Transpose"})


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
            elif types.get(str(value.name)) == "int16":  # also where only the CPU reads it
                _add_request(requests, str(node.name), output_type="int16")


def _are_outputs_int8(optimized: ir.Model) -> bool:
    """Whether a calibrated model's file has all outputs in int8, for which a convolution at the end cannot be asked.

    Of pairs at outputs, which trained models and other tools write, no conversion shows that.
    """
    if MARK_TRAINED in optimized.metadata_props:
        return False
    types, given = given_types(optimized), given_thresholds(optimized)
    names = [str(value.name) for value in optimized.graph.outputs]
    return bool(names) and all(name in given and types.get(name, "int8") == "int8" for name in names)


def _by_type(config: Config, optimized: ir.Model) -> frozenset[str]:
    """Nodes that options ``run_<OpType>_on_bpu`` send to the BPU, but for those whose device is asked for by name."""
    sent: set[str] = set()
    for option in config.calibration_parameters.optimization:
        if match := _ON_BPU.match(option):
            names = {str(node.name) for node in optimized.graph if node.op_type == match[1]}
            sent |= names - _placed_by_name(config)
            if not names:
                logger.warning("optimization %s has no effect: the optimised model has no %s", option, match[1])
    return frozenset(sent)


def _placed_by_name(config: Config) -> set[str]:
    """Nodes whose device a configuration names."""
    placed = {name for name, info in config.model_parameters.node_info.items() if info.on is not None}
    return placed | set(config.calibration_parameters.run_on_cpu)


def _run_fast(config: Config, optimized: ir.Model) -> frozenset[str]:
    """Nodes that option ``run_fast`` sends to the BPU: all that can run there, save those that are asked elsewhere."""
    if "run_fast" not in config.calibration_parameters.optimization:
        return frozenset()
    names = {str(node.name) for node in optimized.graph} - _placed_by_name(config)
    refused = place(optimized, config.march.value, PlacementOptions(run_on_bpu=frozenset(names))).refusals
    return frozenset(names - {refusal.node for refusal in refused})
