"""The stage that makes the content of the ``.bin``."""

from __future__ import annotations

import logging

import onnx_ir as ir

from engine.calibrate import to_signed
from engine.calibrate.forward.rebatch import rebatch
from engine.compile import CompiledModel, CompileOptions, compile_model
from engine.compile.removal import remove_nodes
from engine.config import Config
from engine.convert.items import CALIBRATED, COMPILED, QUANTIZED
from engine.convert.refusals import refuse_uncompilable
from engine.convert.runner import Stage, Work
from engine.march import load_march
from engine.quantize import quantize

logger = logging.getLogger("engine.convert")


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


def _without_ends(compiled: CompiledModel, config: Config) -> CompiledModel:
    """``compiled`` without the nodes that ``remove_node_type`` and ``remove_node_name`` name."""
    wanted = config.model_parameters
    if not wanted.remove_node_name and not wanted.remove_node_type:
        return compiled
    removal = remove_nodes(compiled, wanted.remove_node_name, wanted.remove_node_type)
    for node in removal.removed:
        logger.info("Node %s (%s) is removed from the .bin; scale: %s", node.name, node.type, list(node.scales))
    for name in removal.skipped:
        logger.warning("Node %s is not adjacent to input or output. It can not be removed! Skipped!", name)
    for kind in sorted(set(wanted.remove_node_type) - {node.type for node in removal.removed}):
        logger.info("remove_node_type %s: no such node is adjacent to input or output.", kind)
    return removal.model


def _deployed(work: Work) -> ir.Model:
    """What the ``.bin`` holds: the quantised model, made anew for ``input_batch`` samples where that is above 1."""
    batch = work.config.input_parameters.input_batch
    if batch == 1:
        return work[QUANTIZED]
    logger.info("The .bin takes %d samples at once: input_batch.", batch)
    return quantize(to_signed(rebatch(work[CALIBRATED], batch)), work.config.march.value)


def _compile(work: Work) -> None:
    config = work.config
    name = config.model_parameters.output_model_file_prefix
    refuse_uncompilable(work[QUANTIZED], load_march(config.march.value))
    compiled = compile_model(_deployed(work), config.march.value, compile_options(config), name)
    work.give(COMPILED, _without_ends(compiled, config))


COMPILE = Stage(
    name="compile",
    run=_compile,
    reads=(QUANTIZED, CALIBRATED),
    gives=(COMPILED,),
    parameters=(
        "model_parameters.march",
        "model_parameters.output_model_file_prefix",
        "model_parameters.remove_node_type",
        "model_parameters.remove_node_name",
        "input_parameters.input_batch",
        "compiler_parameters",
    ),
)
