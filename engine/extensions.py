"""What users add to the engine by registration: calibration methods and corrections (see CONTRIBUTING.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from engine.errors import ConfigError, hint
from engine.registry import Registry
from engine.terms import CalibrationType

CALIBRATION_METHODS: Registry[Any] = Registry(
    "calibration method",
    "ptqlab.calibration_methods",
    "engine.calibrate.methods.methods:Method",
    tuple(kind.value for kind in CalibrationType),
)
"""Classes derived from :class:`engine.calibrate.Method`, which ``calibration_type`` then names."""

CORRECTIONS: Registry[Any] = Registry(
    "correction",
    "ptqlab.corrections",
    "engine.calibrate.corrections.correction:Correction",
    "engine.config.options:WORDS",
)
"""Classes derived from :class:`engine.calibrate.Correction`, which ``corrections`` then names."""


class OwnName(str):
    """Name of something registered, as the value of an option. Keys of results have the digest of its sources."""

    __slots__ = ()
    registry: Registry[Any]

    @property
    def digest(self) -> str:
        """Digest of the sources of the registered class."""
        return self.registry.entry(self).digest

    @property
    def what(self) -> str:
        """Kind and name, for lists of what computed a result."""
        return f"{self.registry.kind} {self}"


class OwnMethod(OwnName):
    """A registered method as ``calibration_type``; it answers what :class:`CalibrationType` does."""

    __slots__ = ()
    registry = CALIBRATION_METHODS

    @property
    def value(self) -> str:
        """The name that users write."""
        return str(self)

    @property
    def needs_data(self) -> bool:
        """Whether calibration data must be given."""
        return bool(self.registry[self].needs_data)

    @property
    def gives_thresholds(self) -> bool:
        """Whether it gives the threshold of a tensor by itself, from data."""
        return self.needs_data

    @property
    def needs_histogram(self) -> bool:
        """Whether it looks at histograms."""
        return bool(self.registry[self].needs_histogram)


class OwnCorrection(OwnName):
    """A registered correction in ``corrections``."""

    __slots__ = ()
    registry = CORRECTIONS


def read_method(value: Any) -> CalibrationType | OwnMethod:
    """``calibration_type`` as a file has it.

    Raises:
        ValueError: there is no such method, or its registration is wrong.
    """
    if isinstance(value, CalibrationType | OwnMethod):
        return value
    if isinstance(value, str) and value in {kind.value for kind in CalibrationType}:
        return CalibrationType(value)
    try:
        names = CALIBRATION_METHODS.names()
        if value in names:
            _ = CALIBRATION_METHODS[value]
            return OwnMethod(value)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    allowed = [*(kind.value for kind in CalibrationType), *names]
    raise ValueError(f"calibration_type {value!r} should in list {allowed}{hint(str(value), allowed)}")


def read_corrections(value: Any) -> tuple[OwnCorrection, ...]:
    """``corrections`` as a file has it: names joined by ``;``, ``,`` or ``+``, a list of them, or ``none``.

    Raises:
        ValueError: there is no such correction, or its registration is wrong, or one is named twice.
    """
    parts = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    names = [name for part in parts for name in _words(part)]
    for name in names:
        try:
            _ = CORRECTIONS[name]
        except ConfigError as error:
            raise ValueError(str(error)) from error
        if names.count(name) > 1:
            raise ValueError(f"correction {name!r} is named twice")
    return tuple(map(OwnCorrection, names))


def _words(value: Any) -> list[str]:
    if value is None or value == "none":
        return []
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no name of a correction")
    return [word for word in value.replace(";", " ").replace(",", " ").replace("+", " ").split() if word]


Calibration = Annotated[CalibrationType | OwnMethod, PlainValidator(read_method), PlainSerializer(str, str, "json")]
"""A calibration method in options and files."""

Corrections = Annotated[
    tuple[OwnCorrection, ...], PlainValidator(read_corrections), PlainSerializer(list, list[str], "json")
]
"""Corrections in options and files."""
