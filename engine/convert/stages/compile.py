"""The stages that make the content of the ``.bin``."""

from __future__ import annotations

import logging

from engine.chips import load_chip
from engine.compile import CompiledModel, CompileOptions, compile_model
from engine.compile.removal import Named, OfTypes, removable, remove_nodes
from engine.config import Config
from engine.convert.items import CALIBRATED, COMPILED, DEPLOYED, QUANTIZED
from engine.convert.layouts import refuse_torn_layouts
from engine.convert.refusals import refuse_uncompilable
from engine.convert.runner import Stage, Work
from engine.errors import hint
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
    steps: list[Named | OfTypes] = [*map(Named, wanted.remove_node_name)]
    steps.append(OfTypes(frozenset(wanted.remove_node_type)))
    removal = remove_nodes(compiled, steps)
    for node in removal.removed:
        logger.info("Node %s (%s) is removed from the .bin; scale: %s", node.name, node.type, list(node.scales))
    for name in removal.skipped:
        logger.warning(
            "Node %s is not adjacent to input or output. It can not be removed! Skipped!%s",
            name,
            hint(name, removable(compiled)),
        )
    for kind in removal.absent:
        logger.info("remove_node_type %s: no such node is adjacent to input or output.", kind)
    return removal.model


def _rebatch(work: Work) -> None:
    from engine.floats.rebatch import rebatch  # brings the float model, which few conversions need

    batch = work.config.input_parameters.input_batch
    logger.info("The .bin takes %d samples at once (input_batch).", batch)
    rebatched = rebatch(work[CALIBRATED], batch)
    work.give(DEPLOYED, quantize(rebatched, work.config.march.value))


def _takes_several(config: Config) -> bool:
    return config.input_parameters.input_batch > 1


def _compile(work: Work) -> None:
    config = work.config
    name = config.model_parameters.output_model_file_prefix
    refuse_uncompilable(work[DEPLOYED], load_chip(config.march.value))
    refuse_torn_layouts(work[DEPLOYED], load_chip(config.march.value))
    compiled = compile_model(work[DEPLOYED], config.march.value, compile_options(config), name)
    work.give(COMPILED, _without_ends(compiled, config))


REBATCH = Stage(
    name="rebatch",
    run=_rebatch,
    reads=(QUANTIZED, CALIBRATED),
    gives=(DEPLOYED,),
    parameters=("model_parameters.march", "input_parameters.input_batch"),
    passes={DEPLOYED: QUANTIZED},
    asked=_takes_several,
)
COMPILE = Stage(
    name="compile",
    run=_compile,
    reads=(DEPLOYED,),
    gives=(COMPILED,),
    parameters=(
        "model_parameters.march",
        "model_parameters.output_model_file_prefix",
        "model_parameters.remove_node_type",
        "model_parameters.remove_node_name",
        "compiler_parameters",
    ),
)
