"""The stages of a trial: those of a conversion with data from a card, and what measures the result."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from engine.convert.items import DATA, PLACEMENT, QUANTIZED, STATISTICS, THREADS
from engine.convert.pipeline import CONVERSION
from engine.convert.runner import Given, Item, Run, Stage
from engine.fingerprint import Fingerprint, digest_of, fingerprint_of
from harness.backends.foreign import hb_mapper_tool
from harness.backends.items import (
    BOARD,
    BROKEN,
    CALIBRATION_USE,
    CARD,
    DATA_DIGEST,
    DATA_DIGESTS,
    DOUBTS,
    EVALUATION_SAMPLES,
    FLOAT_DIGESTS,
    FOLDER,
    FOOTPRINT,
    INT16_NODES,
    MODEL_DIGESTS,
    NODES,
    RANKING,
    SCORED,
    TOOL,
    TRIAL,
)
from harness.backends.stages.broken import LOOK_AT_FOREIGN_OUTPUTS, LOOK_AT_OUTPUTS
from harness.backends.stages.digest import DIGEST_DATA, DIGEST_FLOAT, DIGEST_MODELS
from harness.backends.stages.doubts import LOOK_AT_DATA
from harness.backends.stages.floats import RUN_FLOAT
from harness.backends.stages.foreign import HB_MAPPER, ONNXRUNTIME
from harness.backends.stages.images import FEED, OPEN_DATASET, TAKE_IMAGES
from harness.backends.stages.inspect import MEASURE_FOOTPRINT, TABULATE
from harness.backends.stages.rank import RANK
from harness.backends.stages.score import SCORE
from harness.backends.stages.simulate import SIMULATE
from harness.backends.stages.statistics import COLLECT
from harness.suites.settings import Engine, Int16Kind, Settings
from harness.trials.origins import Environment

_SHARED = (OPEN_DATASET, TAKE_IMAGES, LOOK_AT_DATA, FEED, RUN_FLOAT, SCORE, DIGEST_DATA)
_ENGINE = tuple(stage for stage in CONVERSION if DATA not in stage.gives)

STAGES: Mapping[Engine, tuple[Stage, ...]] = MappingProxyType(
    {
        Engine.BUNDLED: (
            *_SHARED,
            *_ENGINE,
            RANK,
            SIMULATE,
            LOOK_AT_OUTPUTS,
            MEASURE_FOOTPRINT,
            TABULATE,
            DIGEST_FLOAT,
            DIGEST_MODELS,
        ),
        Engine.ONNXRUNTIME: (*_SHARED, ONNXRUNTIME, LOOK_AT_FOREIGN_OUTPUTS),
        Engine.HB_MAPPER: (
            *_SHARED,
            *(stage for stage in _ENGINE if QUANTIZED not in stage.gives),
            RANK,
            HB_MAPPER,
            SIMULATE,
            LOOK_AT_FOREIGN_OUTPUTS,
            MEASURE_FOOTPRINT,
        ),
    }
)
"""The stages by engine. The vendor's command takes the nodes that ours ranks."""

_JUDGED = (SCORED, DOUBTS, BROKEN)

RESULTS: Mapping[Engine, tuple[Item[Any], ...]] = MappingProxyType(
    {
        Engine.BUNDLED: (*_JUDGED, FOOTPRINT, NODES, PLACEMENT, DATA_DIGESTS, FLOAT_DIGESTS, MODEL_DIGESTS),
        Engine.ONNXRUNTIME: (*_JUDGED, DATA_DIGESTS),
        Engine.HB_MAPPER: (*_JUDGED, FOOTPRINT, DATA_DIGESTS),
    }
)
"""What a trial is made of."""

_GIVEN = (
    CARD,
    TRIAL,
    INT16_NODES,
    DATA_DIGEST,
    CALIBRATION_USE,
    EVALUATION_SAMPLES,
    FOLDER,
    TOOL,
    STATISTICS,
    THREADS,
    BOARD,
)


def all_stages() -> tuple[Stage, ...]:
    """Every stage of any trial, each once."""
    return tuple({stage.name: stage for stages in (*STAGES.values(), (COLLECT,)) for stage in stages}.values())


def fingerprints() -> dict[str, str]:
    """Fingerprints of all stages, by module."""
    return {stage.module: fingerprint_of(stage.module).digest for stage in all_stages()}


def stages_of(settings: Settings, run: Run) -> tuple[Stage, ...]:
    """The stages that a trial runs; ``run``: one whose configuration asks for what the trial asks for."""
    ranked = (RANKING,) if settings.int16.kind is Int16Kind.TOP_K else ()
    results = (*RESULTS[settings.engine], *ranked)
    found = {stage.name: stage for stage in run.stages_of(*results)}
    if settings.engine is Engine.BUNDLED or ranked:
        found[COLLECT.name] = COLLECT
    return tuple(found.values())


def planned(settings: Settings, config: Any) -> Run:
    """A run of a trial that only lists the stages that it would run."""
    return Run(STAGES[settings.engine], config, {item: Given(None) for item in _GIVEN})


def version_of_stages(settings: Settings, config: Any) -> str:
    """Digest of sources and tools of all stages that a trial runs, the vendor's command included."""
    stages = stages_of(settings, planned(settings, config))
    tool = hb_mapper_tool() if settings.engine is Engine.HB_MAPPER else ""
    return digest_of({stage.name: fingerprint_of(stage.module).digest for stage in stages}, tool)


def environment(engines: Collection[Engine], version: str) -> Environment:
    """What computes the trials of ``engines``; ``version``: of ptqlab."""
    stages = {stage.name: stage for engine in Engine if engine in engines for stage in (*STAGES[engine], COLLECT)}
    found: dict[str, Fingerprint] = {name: fingerprint_of(stage.module) for name, stage in stages.items()}
    tools = {name: text for each in found.values() for name, text in each.tools.items()}
    if Engine.HB_MAPPER in engines:
        tools["hb_mapper"] = hb_mapper_tool()
    return Environment(
        version=version,
        stages={name: digest_of(dict(each.files)) for name, each in found.items()},
        tools=tools,
        sources={path: digest for each in found.values() for path, digest in each.files.items()},
    )
