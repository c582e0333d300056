"""Options of a name and a value: shapes and fixed values of inputs, as one word or two."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from engine.errors import ConfigError

INPUT_SHAPE = "--input-shape"
FIX = "--fix"
PAIRS = (INPUT_SHAPE, "-i", "--image-file", FIX)
"""Options that take a name and a value, as two words or as one, and may be repeated."""

_SHAPE = re.compile(r"(?P<name>.*\S)[= ](?P<dims>[0-9]+(x[0-9]+)*)", re.IGNORECASE | re.DOTALL)
_ONE_WORD = re.compile(r".+[= ].+", re.DOTALL)

FixedInputs = Annotated[
    list[str] | None,
    typer.Option(
        FIX,
        metavar="NAME=VALUE",
        help="Value of an input that is a setting, as sr=16000, which becomes a constant; repeatable.",
    ),
]
"""``--fix``."""


def join_pairs(arguments: Sequence[str], options: Sequence[str] = PAIRS) -> list[str]:
    """``--input-shape NAME SHAPE`` as ``--input-shape "NAME SHAPE"``: typer has no repeatable options of two words.

    A word that holds both, as ``NAME=SHAPE``, stays.
    """
    joined: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        joined.append(argument)
        if argument not in options:
            continue
        name = next(rest, None)
        if name is None or _ONE_WORD.fullmatch(name):
            joined += [] if name is None else [name]
            continue
        joined += [" ".join(word for word in (name, next(rest, None)) if word is not None)]
    return joined


def read_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """``"data=1x3x224x224"`` or ``"data 1x3x224x224"`` to name and dimensions.

    Raises:
        ConfigError: it is not a name and positive integers joined by ``x``.
    """
    found = _SHAPE.fullmatch(text)
    dims = () if found is None else tuple(map(int, found["dims"].lower().split("x")))
    if found is None or 0 in dims:
        raise ConfigError(
            f"{INPUT_SHAPE} {text}: give NAME=SHAPE or NAME SHAPE with positive integers joined by x, such as "
            "data=1x3x224x224"
        )
    return found["name"], dims


def read_shapes(entries: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """Shapes by name, of ``--input-shape`` given any number of times.

    Raises:
        ConfigError: an entry is no name and positive dimensions.
    """
    return dict(map(read_shape, entries or ()))


def read_fixed(entries: Sequence[str] | None) -> Mapping[str, tuple[float, ...]]:
    """Values by name, of ``--fix`` given any number of times.

    Raises:
        ConfigError: an entry is no name and numbers.
    """
    from engine.config.values import parse_values

    fixed: dict[str, tuple[float, ...]] = {}
    for entry in entries or ():
        name, separator, text = entry.partition("=") if "=" in entry else entry.rpartition(" ")
        if not name or not separator or not text:
            raise ConfigError(f"{FIX} {entry}: give NAME=VALUE, such as sr=16000, several values joined by commas")
        try:
            fixed |= parse_values(f"{name}={text}")
        except ValueError as error:
            raise ConfigError(f"{FIX} {entry}: {error}") from error
    return fixed
