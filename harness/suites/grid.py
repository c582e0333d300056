"""The grid of a sweep: values per axis, what their combinations are, and why some are no trials."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from engine.terms import CalibrationType
from harness.files.strict_yaml import StrictModel
from harness.suites.settings import Settings


def as_list(value: Any) -> Any:
    """One value is a list of one."""
    return value if isinstance(value, list | tuple) else (value,)


E = TypeVar("E")
Values = Annotated[tuple[E, ...], BeforeValidator(as_list), Field(min_length=1)]
"""One value, or a list of values."""


@dataclass(frozen=True)
class Skipped:
    """A combination of a grid that is no trial.

    Attributes:
        values: by axis.
        reason: why not.
    """

    values: Mapping[str, Any]
    reason: str


class Axes(StrictModel):
    """Values per axis; every combination that means something is a trial."""

    def settings(self) -> list[Settings]:
        """All combinations that mean something, in the order of the axes, each once."""
        return self.combinations()[0]

    def combinations(self) -> tuple[list[Settings], list[Skipped]]:
        """The combinations that mean something, each once, and those that do not.

        ``max_percentile`` belongs to ``max``: beside other methods all its values are one combination.
        """
        found: dict[Settings, None] = {}
        skipped = []
        for values in itertools.product(*(getattr(self, axis) for axis in Settings.model_fields)):
            combination = dict(zip(Settings.model_fields, values, strict=True))
            if combination["calibration_type"] is not CalibrationType.MAX:
                combination["max_percentile"] = 1.0
            try:
                found.setdefault(Settings(**combination))
            except ValidationError as error:
                reasons = (str(detail["msg"]).removeprefix("Value error, ") for detail in error.errors())
                skipped.append(Skipped(combination, "; ".join(reasons)))
        return list(found), skipped

    def values(self) -> Iterator[tuple[str, Any]]:
        """Every value of every axis that has several or another than the default."""
        for axis, field in Settings.model_fields.items():
            given = getattr(self, axis)
            yield from ((axis, value) for value in given if len(given) > 1 or value != field.default)


def _of_field(field: FieldInfo) -> Any:
    """The type of an axis over a field of :class:`Settings`."""
    element: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    return Values[element]


if TYPE_CHECKING:
    Grid = Axes
else:
    Grid = create_model(
        "Grid",
        __base__=Axes,
        __doc__="The axes of a grid: the fields of :class:`Settings`, each with one value or a list of values.",
        **{name: (_of_field(field), (field.default,)) for name, field in Settings.model_fields.items()},
    )
