"""How much a stranger's file may ask for: each bound with its default, and the environment variable that changes it.

A reader calls :func:`limit` where it is about to build or compute what a file describes, so that ten lines cannot stand
for more than a machine holds. Files of honest models stay far below; ``docs/security.md`` lists all bounds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from engine.errors import ConfigError

PREFIX = "PTQLAB_MAX_"
"""What the environment variables begin with."""


@dataclass(frozen=True)
class Limit:
    """One bound.

    Attributes:
        default: what holds where the environment variable is not set.
        meaning: what is counted, as messages and the security page say it.
    """

    default: int
    meaning: str


LIMITS: Mapping[str, Limit] = MappingProxyType(
    {
        "NODES": Limit(20_000, "nodes of a model, its functions written out"),
        "TENSOR_ELEMENTS": Limit(1 << 31, "elements of one tensor of a model"),
        "FOLDED_BYTES": Limit(1 << 30, "bytes of all constants that are computed while a model is read or optimised"),
        "NAME_LENGTH": Limit(4_096, "characters of a name in a model"),
        "YAML_BYTES": Limit(1 << 22, "bytes of a YAML file"),
        "YAML_VALUES": Limit(1 << 20, "values of a YAML file, its aliases and merge keys written out"),
        "SCHEDULE_LAYERS": Limit(100_000, "layers of a schedule in a .bin file"),
        "INTERVALS": Limit(1_000_000, "intervals of 0.1 ms that hb_perf shows"),
        "IMAGE_PIXELS": Limit(178_956_970, "pixels of an image file"),
    }
)
"""All bounds by name: the environment variable is the name behind :data:`PREFIX`."""


def limit(name: str) -> int:
    """The bound ``name`` of :data:`LIMITS` that holds now.

    Raises:
        ConfigError: its environment variable is no positive whole number.
    """
    text = os.environ.get(f"{PREFIX}{name}", "")
    if not text:
        return LIMITS[name].default
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ConfigError(f"environment variable {PREFIX}{name}: {text!r} is no positive whole number")
    return int(text)


def beyond(name: str) -> str:
    """The end of a message about what exceeds bound ``name``: how much is allowed, and how that is changed."""
    return f"more than {limit(name)} {LIMITS[name].meaning}; {PREFIX}{name} in the environment changes that"
