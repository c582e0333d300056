"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from engine.chips import March
from engine.errors import ConfigError, hint

if TYPE_CHECKING:
    from pydantic import BaseModel

    from engine.config import NodeInfo

InputShapes = Annotated[
    list[str] | None,
    typer.Option("--input-shape", metavar="NAME=SHAPE", help="Shape of an input, as data=1x3x224x224; repeatable."),
]
"""``--input-shape``."""
NodeInfoText = Annotated[
    str | None,
    typer.Option(
        "--node-info", metavar="JSON", help='node_info as in YAML: {"Conv_0": {"ON": "BPU", "InputType": "int16"}}.'
    ),
]
"""``--node-info``."""


def read_marches(text: str) -> tuple[str, ...]:
    """``"bayes,nash-e"`` to names of architectures; in their order.

    Raises:
        ConfigError: one of them is unknown.
    """
    names = tuple(part.strip() for part in text.split(","))
    for name in names:
        if name not in list(March):
            raise ConfigError(
                f"--march {name!r}: expected one of {', '.join(March)}, or several joined by commas{hint(name, March)}"
            )
    return names


def read_march(text: str) -> str:
    """The name of one architecture.

    Raises:
        ConfigError: it is unknown, or several are given.
    """
    names = read_marches(text)
    if len(names) > 1:
        raise ConfigError(f"--march {text!r}: expected one architecture")
    return names[0]


def read_node_info(text: str | None) -> Mapping[str, NodeInfo]:
    """``node_info`` as JSON, checked as that of a YAML file.

    Raises:
        ConfigError: it is no JSON object, or has wrong keys or values.
    """
    import json

    from pydantic import ValidationError

    from engine.config import NodeInfo

    if text is None:
        return {}
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"--node-info: not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"--node-info: expected an object of nodes, found {type(content).__name__}")
    try:
        return {name: NodeInfo.model_validate(info) for name, info in content.items()}
    except ValidationError as error:
        raise ConfigError(f"--node-info: {first_mistake(error, NodeInfo)}") from error


def first_mistake(error: object, model: type[BaseModel]) -> str:
    """Place, value and rule of the first mistake that ``error`` names, and the keys that are allowed."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    detail = error.errors()[0]
    where = ".".join(map(str, detail["loc"]))
    allowed = [field.alias or name for name, field in model.model_fields.items()]
    near = hint(str(detail["loc"][-1]), allowed) if detail["type"] == "extra_forbidden" else ""
    return f"{where}: {detail['msg']}; keys are {', '.join(allowed)}{near}"
