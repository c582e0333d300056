"""The stages of a trial: those of a conversion with data from a card, and what measures the result."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from engine.convert.items import DATA, PLACEMENT, QUANTIZED, STATISTICS, THREADS
from engine.convert.pipeline import CONVERSION
from engine.convert.runner import Given, Item, Run, Stage
from engine.extensions import OwnName
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
from harness.backends.stages.foreign import HB_MAPPER, ONNXRUNTIME, OWN_ENGINE
from harness.backends.stages.images import FEED, OPEN_DATASET, TAKE_IMAGES
from harness.backends.stages.inspect import MEASURE_FOOTPRINT, TABULATE
from harness.backends.stages.rank import RANK
from harness.backends.stages.score import JUDGE, SCORE
from harness.backends.stages.simulate import SIMULATE
from harness.backends.stages.statistics import COLLECT
from harness.extensions import ENGINES, OwnEngine
from harness.suites.settings import Engine, Int16Kind, Settings
from harness.trials.origins import Environment

_SHARED = (OPEN_DATASET, TAKE_IMAGES, LOOK_AT_DATA, FEED, RUN_FLOAT, JUDGE, SCORE, DIGEST_DATA)
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

_OWN_STAGES = (*_SHARED, OWN_ENGINE, LOOK_AT_FOREIGN_OUTPUTS)
"""Stages of a trial whose engine the user registered."""


def stages_for(engine: Engine | OwnEngine) -> tuple[Stage, ...]:
    """The stages by engine."""
    return _OWN_STAGES if isinstance(engine, OwnEngine) else STAGES[engine]


def results_for(engine: Engine | OwnEngine) -> tuple[Item[Any], ...]:
    """What a trial is made of, by engine."""
    return RESULTS[Engine.ONNXRUNTIME] if isinstance(engine, OwnEngine) else RESULTS[engine]


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
    return tuple(
        {stage.name: stage for stages in (*STAGES.values(), (OWN_ENGINE, COLLECT)) for stage in stages}.values()
    )


def fingerprints() -> dict[str, str]:
    """Fingerprints of all stages, by module."""
    return {stage.module: fingerprint_of(stage.module).digest for stage in all_stages()}


def stages_of(settings: Settings, run: Run) -> tuple[Stage, ...]:
    """The stages that a trial runs; ``run``: one whose configuration asks for what the trial asks for."""
    ranked = (RANKING,) if settings.int16.kind is Int16Kind.TOP_K else ()
    results = (*results_for(settings.engine), *ranked)
    found = {stage.name: stage for stage in run.stages_of(*results)}
    if settings.engine is Engine.BUNDLED or ranked:
        found[COLLECT.name] = COLLECT
    return tuple(found.values())


def planned(settings: Settings, config: Any) -> Run:
    """A run of a trial that only lists the stages that it would run."""
    return Run(stages_for(settings.engine), config, {item: Given(None) for item in _GIVEN})


def version_of_stages(settings: Settings, config: Any) -> str:
    """Digest of sources and tools of all stages that a trial runs, of the vendor's command and the user's code."""
    stages = stages_of(settings, planned(settings, config))
    tool = hb_mapper_tool() if settings.engine is Engine.HB_MAPPER else ""
    return digest_of({stage.name: fingerprint_of(stage.module).digest for stage in stages}, tool, *own_tools(settings))


def own_tools(settings: Settings) -> list[tuple[str, str]]:
    """What the user registered that a trial with ``settings`` runs, and the digest of its sources and tools."""
    return [(name.what, _digest_of_own(name)) for name in settings.own_names]


def _digest_of_own(name: OwnName) -> str:
    version = ENGINES[name]().version() if isinstance(name, OwnEngine) else ""
    return f"{name.digest} {version}".strip()


def environment(settings: Collection[Settings], version: str) -> Environment:
    """What computes trials with ``settings``; ``version``: of ptqlab."""
    engines = {each.engine for each in settings}
    ordered = sorted(engines, key=lambda engine: list(Engine).index(engine) if isinstance(engine, Engine) else 99)
    stages = {stage.name: stage for engine in ordered for stage in (*stages_for(engine), COLLECT)}
    found: dict[str, Fingerprint] = {name: fingerprint_of(stage.module) for name, stage in stages.items()}
    tools = {name: text for each in found.values() for name, text in each.tools.items()}
    if Engine.HB_MAPPER in engines:
        tools["hb_mapper"] = hb_mapper_tool()
    tools |= {what: digest for each in settings for what, digest in own_tools(each)}
    return Environment(
        version=version,
        stages={name: digest_of(dict(each.files)) for name, each in found.items()},
        tools=tools,
        sources={path: digest for each in found.values() for path, digest in each.files.items()},
    )
