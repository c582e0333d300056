"""YAML files as typed models: safe-loaded, unknown keys refused, errors name file, key, value and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from engine.config import load_yaml
from engine.errors import ConfigError


class StrictModel(BaseModel):
    """Base of everything that is read from a YAML file: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


M = TypeVar("M", bound=BaseModel)


def load_typed(path: Path, model: type[M]) -> M:
    """Read ``path`` as ``model``.

    Raises:
        ConfigError: the file is missing, no YAML mapping, or holds a wrong key or value.
    """
    return parse(load_yaml(path), model, str(path))


def load_draft(path: Path, model: type[M], absent: Mapping[str, Any]) -> M:
    """As :func:`load_typed`; of keys that the file lacks, ``absent`` holds the values."""
    return parse({**absent, **read_mapping(path, model)}, model, str(path))


def read_mapping(path: Path, model: type[BaseModel]) -> dict[str, Any]:
    """The content of ``path``, to become a ``model``, before its keys are looked at; raises as :func:`load`."""
    return dict(_mapping(load_yaml(path), model, str(path)))


def _mapping(content: object, model: type[BaseModel], where: str) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise ConfigError(f"{where}: holds {type(content).__name__}, expected a mapping with {', '.join(_keys(model))}")
    return content


def parse(content: object, model: type[M], where: str) -> M:
    """Validate ``content`` (as YAML gives it) as ``model``; ``where`` names the origin in messages.

    Raises:
        ConfigError: naming ``where`` and every wrong key or value.
    """
    try:
        return model.model_validate(_mapping(content, model, where))
    except ValidationError as error:
        raise ConfigError(f"{where}: " + "; ".join(_explain(e, model) for e in error.errors())) from error


def unknown(kind: str, name: str, allowed: Iterable[str]) -> ConfigError:
    """The error for a name that is not registered: says what was given, the nearest match and what is allowed."""
    choices = sorted(set(allowed))
    return ConfigError(f"unknown {kind} {name!r}{_nearest(name, choices)} Allowed: {_listed(name, choices)}")


def _listed(name: str, choices: Sequence[str]) -> str:
    """All of ``choices``, or the most similar ones and how many others there are."""
    if len(choices) <= _MOST_LISTED:
        return ", ".join(choices) or "none"
    near = difflib.get_close_matches(name, choices, n=_NEAR, cutoff=0) or choices[:_NEAR]
    return f"{', '.join(near)} and {len(choices) - len(near)} others"


_MOST_LISTED, _NEAR = 40, 5
"""Names that a message lists; those that it lists of more."""


def _explain(error: ErrorDetails, model: type[BaseModel]) -> str:
    location = [part for part in error["loc"] if part != "[key]"]
    where = ".".join(map(str, location))
    match error["type"]:
        case "extra_forbidden":
            key, allowed = str(location[-1]), _keys(_model_at(model, location[:-1]))
            return f"unknown key {where!r}{_nearest(key, allowed)} Allowed: {', '.join(allowed)}"
        case "missing":
            return f"key {where!r} is missing"
        case _:
            message = error["msg"].removeprefix("Value error, ")
            return f"{where}: {error['input']!r}: {message}" if where else message


def _nearest(name: str, allowed: Iterable[str]) -> str:
    matches = difflib.get_close_matches(name, list(allowed), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else "."


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_at(model: type[BaseModel], location: Iterable[int | str]) -> type[BaseModel]:
    """The model that the keys in ``location`` lead to; indices and free mappings' keys lead to elements."""
    for part in location:
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                model = _innermost_model(field.annotation) or model
    return model


def _innermost_model(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    candidates = (_innermost_model(argument) for argument in get_args(annotation))
    return next((found for found in candidates if found), None)


def as_plain(model: BaseModel) -> dict[str, Any]:
    """The model as YAML and JSON can hold it; fields that have their default stay out."""
    return model.model_dump(mode="json", exclude_defaults=True, by_alias=True)
