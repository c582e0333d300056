"""The stages of a conversion, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.config import Config
from engine.convert.items import STATISTICS, THREADS
from engine.convert.runner import NO_HOOKS, Given, Hooks, Item, Run, Stage
from engine.convert.stages.calibrate import CALIBRATE, FIX_THRESHOLDS
from engine.convert.stages.compare import COMPARE, MEASURE
from engine.convert.stages.compile import COMPILE, REBATCH
from engine.convert.stages.correct import CORRECT
from engine.convert.stages.data import OPEN_DATA
from engine.convert.stages.equalize import EQUALIZE
from engine.convert.stages.optimize import OPTIMIZE
from engine.convert.stages.place import ADMIT, ADMIT_DRAFT, DECOMPOSE, PLACE, REQUEST
from engine.convert.stages.quantize import QUANTIZE
from engine.convert.stages.source import PREPARE, READ

CONVERSION: tuple[Stage, ...] = (
    READ,
    PREPARE,
    OPEN_DATA,
    OPTIMIZE,
    EQUALIZE,
    REQUEST,
    DECOMPOSE,
    PLACE,
    ADMIT,
    CALIBRATE,
    CORRECT,
    QUANTIZE,
    REBATCH,
    COMPILE,
    COMPARE,
    MEASURE,
)
"""All of them."""

WITHOUT_DATA: tuple[Stage, ...] = (
    PREPARE,
    OPTIMIZE,
    EQUALIZE,
    REQUEST,
    DECOMPOSE,
    PLACE,
    ADMIT_DRAFT,
    FIX_THRESHOLDS,
    CORRECT,
    QUANTIZE,
    REBATCH,
    COMPILE,
)
"""The stages of a check, to which source and inputs are given."""

DEFAULTS: Mapping[Item[Any], Given] = {STATISTICS: Given(None, "collected"), THREADS: Given(None, "any")}
"""Statistics are collected by the calibration itself, on all CPUs."""


def conversion(config: Config, given: Mapping[Item[Any], Given] | None = None, hooks: Hooks = NO_HOOKS) -> Run:
    """A conversion as ``config`` asks for; ``given``: items that are there already."""
    return Run(CONVERSION, config, {**DEFAULTS, **(given or {})}, hooks)
