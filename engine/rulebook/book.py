"""All rules by id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any

import onnx_ir as ir

from engine.chips import marches_where
from engine.errors import ConfigError
from engine.graph.scales import Margin
from engine.rulebook import calibrated, device, integers, name, scale, width
from engine.rulebook.device_sites import On, Place
from engine.rulebook.rewrite import REWRITES
from engine.rulebook.rule import ALL, Rule, Table


@dataclass(frozen=True)
class Book:
    """All tables, in the order in which they decide.

    Attributes:
        devices: the steps that place nodes.
        widths: which tensors are int16.
        inputs: which tensors that are read are calibrated.
        results: which tensors that are given are.
        outputs_read: how outputs are calibrated that the BPU reads as well.
        read_by_cpu: which form of what is calibrated the CPU reads.
        before_scales: where a calibration is left out before scales are known.
        after_scales: where it is left out afterwards.
        for_cpu: which tensors that the CPU reads are calibrated besides.
        constants: the thresholds of constants.
        scales: the steps that demand scales.
        margins: what a threshold is multiplied by.
        names: what everything is called.
    """

    devices: tuple[device.DeviceStep, ...] = device.STEPS
    widths: width.WidthRules = field(default_factory=width.WidthRules)
    inputs: Table[calibrated.Input, calibrated.Calibrate] = calibrated.INPUTS
    results: Table[calibrated.Result, calibrated.Calibrate] = calibrated.RESULTS
    outputs_read: Table[calibrated.OutputRead, calibrated.Calibrate] = calibrated.OUTPUTS_READ
    read_by_cpu: Table[calibrated.OfCpu, calibrated.Calibrate] = calibrated.READ_BY_CPU
    before_scales: Table[calibrated.Calibrated, calibrated.Calibrate] = calibrated.BEFORE_SCALES
    after_scales: Table[calibrated.Calibrated, calibrated.Calibrate] = calibrated.AFTER_SCALES
    for_cpu: Table[calibrated.OfCpu, calibrated.Calibrate] = calibrated.FOR_CPU
    constants: Table[ir.Value, str] = scale.CONSTANTS
    scales: tuple[scale.ScaleStep, ...] = scale.STEPS
    margins: Table[ir.Node, Margin] = scale.MARGINS
    names: Mapping[name.NamedPart, name.NameTable] = field(default_factory=lambda: name.NAMES)

    @property
    def tables(self) -> tuple[Table[Any, Any], ...]:
        """The tables alone."""
        return (
            *(step.table for step in self.devices),
            *self.widths.tables,
            self.inputs,
            self.results,
            self.outputs_read,
            self.read_by_cpu,
            self.before_scales,
            self.after_scales,
            self.for_cpu,
            self.constants,
            *(step.table for step in self.scales),
            self.margins,
            *self.names.values(),
        )

    def without(self, *ids: str) -> Book:
        """The book that lacks some rules."""
        return self._changed(lambda table: table.without(*ids))

    def watched(self, seen: set[str]) -> Book:
        """This book, which adds to ``seen`` the ids of the rules that decide something."""
        return self._changed(lambda table: table.watched(seen))

    def _changed(self, change: Callable[[Table[Any, Any]], Table[Any, Any]]) -> Book:
        return Book(
            tuple(replace(step, table=change(step.table)) for step in self.devices),
            width.WidthRules(*map(change, self.widths.tables)),
            change(self.inputs),
            change(self.results),
            change(self.outputs_read),
            change(self.read_by_cpu),
            change(self.before_scales),
            change(self.after_scales),
            change(self.for_cpu),
            change(self.constants),
            tuple(replace(step, table=change(step.table)) for step in self.scales),
            change(self.margins),
            MappingProxyType({part: change(table) for part, table in self.names.items()}),
        )


BOOK = Book()
"""The rules that conversions follow."""

RULES: Mapping[str, Rule[Any, Any]] = MappingProxyType(
    {
        **REWRITES,
        **{rule.id: rule for table in BOOK.tables for rule in table},
        **{rule.id: rule for table in (integers.ARITHMETIC, integers.METHODS) for rule in table},
    }
)
"""Every rule by its id."""


def find_rule(rule: str) -> Rule[Any, Any]:
    """The rule of that id.

    Raises:
        ConfigError: there is none; the message says which are near it.
    """
    from engine.errors import hint

    if rule not in RULES:
        raise ConfigError(f"there is no rule {rule!r}{hint(rule, RULES)}; ptqlab rules lists them")
    return RULES[rule]


def chips_of(rule: Rule[Any, Any]) -> str:
    """The chips that ``rule`` holds for, in words."""
    return "all" if rule.chips == ALL else ", ".join(marches_where(lambda chip: chip.family in rule.chips))


def decision_of(rule: Rule[Any, Any]) -> str:
    """What ``rule`` decides, in words."""
    then = rule.then
    if isinstance(then, Place):
        return f"runs on {then.on.value}" if then.on is not On.UNCHANGED else "stays where it is"
    if isinstance(then, Enum):
        return str(then.value)
    demand = getattr(then, "__doc__", None) if callable(then) else None
    return demand.strip().removesuffix(".") if demand else str(then)
