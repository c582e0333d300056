"""How the values of the file are written: lists joined by ``;``, ``'None'`` for nothing, shapes, numbers, paths."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, model_validator


def split(value: Any) -> Any:
    """``'a; b'`` to ``('a', 'b')``; lists pass, nothing and blank text give ``()``."""
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(";") if part.strip())
    if isinstance(value, Sequence):
        return tuple(str(part).strip() for part in value)
    return (str(value),)


def split_options(value: Any) -> Any:
    """As :func:`split`, and at commas too, as published configurations have them (no option contains one)."""
    return tuple(part.strip() for text in split(value) for part in text.split(",") if part.strip())


def _parse_shapes(value: Any) -> Any:
    """``'1x3x224x224; None'`` to tuples of dimensions; None, where the file's own holds, as of a scalar."""
    return tuple(
        part if not isinstance(part, str) else None if _unquoted(part) in ("None", "scalar") else _parse_shape(part)
        for part in split(value)
    )


def _parse_shape(text: str) -> tuple[int, ...]:
    try:
        dims = tuple(int(dim) for dim in text.lower().split("x"))
    except ValueError:
        dims = ()
    if not dims or min(dims) < 1:
        raise ValueError(
            f"{text!r} is not a shape; write positive dimensions joined by x, for example 1x3x224x224, or None for "
            "that of the file, as of a scalar"
        )
    return dims


def parse_values(value: Any) -> Any:
    """``'sr=16000; flags=0,1'`` to values by name; a mapping of the same passes.

    Raises:
        ValueError: an entry is not of this form.
    """
    if isinstance(value, Mapping):
        return {str(name): _parse_floats(_without_truth(str(entry).strip("()[]"))) for name, entry in value.items()}
    entries = [part.partition("=") for part in split(value)]
    for name, _, text in entries:
        if not name.strip() or not text.strip():
            raise ValueError(f"{value!r}: write NAME=VALUE, for example sr=16000, several separated by ;")
    return {name.strip(): _parse_floats(_without_truth(text)) for name, _, text in entries}


def _without_truth(text: str) -> str:
    """``text`` with numbers for true and false."""
    return re.sub("false", "0", re.sub("true", "1", text, flags=re.IGNORECASE), flags=re.IGNORECASE)


def _parse_numbers(value: Any) -> Any:
    """``'103.94 116.78 123.68; None'`` to one tuple of numbers per input, ``()`` for ``None``."""
    return tuple(_parse_floats(part) for part in split(value))


def _parse_floats(text: str) -> tuple[float, ...]:
    if _unquoted(text) == "None":
        return ()
    try:
        values = tuple(float(item) for item in text.replace(",", " ").split())
    except ValueError:
        raise ValueError(f"{text!r} is neither None nor numbers separated by spaces") from None
    if not all(abs(value) <= LARGEST_FLOAT for value in values):
        raise ValueError(f"{text!r} holds a value that is no finite float32 number")
    return values


def _exact_bool(value: Any) -> Any:
    """YAML's booleans and their names as text; no numbers."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError(f"{value!r}: expected True or False")


def names_as_text(value: Any) -> Any:
    """YAML reads a node called 5 as a number; as a key it is a name nevertheless."""
    if isinstance(value, Mapping):
        return {str(key) if type(key) is int else key: item for key, item in value.items()}
    return value


def split_optional(value: Any) -> Any:
    """As :func:`split`; ``None`` written as text, quoted or not, is no value."""
    return tuple(None if _unquoted(part) == "None" else part for part in split(value))


def _unquoted(text: str) -> str:
    """The documents write ``'None'`` in quotes also inside of a list."""
    return text.strip("\"'")


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{value!r}: expected a number")
    return value


LARGEST_FLOAT = 3.4028234663852886e38
"""The largest finite float32."""

RemovableType = Literal["Quantize", "Transpose", "Dequantize", "Cast", "Reshape", "Softmax"]
DebugMode = Literal["dump_calibration_data"]
RawType = Literal["float32", "uint8"]
CustomOpMethod = Literal["register"]

Names = Annotated[tuple[str, ...], BeforeValidator(split)]
Options = Annotated[tuple[str, ...], BeforeValidator(split_options)]
Flag = Annotated[bool, BeforeValidator(_exact_bool)]
Count = Annotated[int, BeforeValidator(_no_flag)]
Fraction = Annotated[float, BeforeValidator(_no_flag)]
NumbersPerInput = Annotated[tuple[tuple[float, ...], ...], BeforeValidator(_parse_numbers)]
ShapePerInput = Annotated[tuple[tuple[int, ...] | None, ...], BeforeValidator(_parse_shapes)]
ValuesPerInput = Annotated[Mapping[str, tuple[float, ...]], BeforeValidator(parse_values)]


_LONGEST_NAME = 255
_LONGEST_PATH = 3072
"""In bytes; the second leaves room for the folder of the file and for the names of results."""


def check_path(text: str, longest_name: int = _LONGEST_NAME) -> None:
    """Refuse paths that no file system accepts.

    Raises:
        ValueError: ``text`` holds a character that paths cannot, or is too long, or a part of it is.
    """
    if "\0" in text or (not text.isascii() and text.encode(errors="replace").decode() != text):
        raise ValueError(f"{text!a} holds a character that no path can hold")
    if len(text.encode()) > _LONGEST_PATH or any(len(name.encode()) > longest_name for name in text.split("/")):
        raise ValueError(
            f"{text[:60]!r}… is too long for a path: {longest_name} bytes per name, {_LONGEST_PATH} in all"
        )


def resolve(value: Any, info: ValidationInfo) -> Any:
    """A path beside the YAML file if it exists there, else relative to the working directory."""
    if not isinstance(value, str | os.PathLike):
        return value
    check_path(os.fspath(value))
    path = Path(value)
    base = (info.context or {}).get("folder")
    beside = base / path if base is not None else path
    return beside if os.path.exists(beside) else path


def _resolve_all(value: Any, info: ValidationInfo) -> Any:
    return tuple(resolve(part, info) for part in split(value))


File = Annotated[Path | None, BeforeValidator(resolve)]
Files = Annotated[tuple[Path, ...], BeforeValidator(_resolve_all)]


class Group(BaseModel):
    """A parameter group: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _absent_means_default(cls, values: Any) -> Any:
        """A key without a value is a key that is not given."""
        if isinstance(values, Mapping):
            return {key: value for key, value in values.items() if value is not None and value != ""}
        return values
