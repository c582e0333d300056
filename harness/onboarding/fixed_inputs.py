"""Inputs that become constants (``--fix``), and what to do about a network with inputs that cards cannot feed.

A size that is always the same, a sampling rate, a state that begins with zeros: what does not change from sample to
sample need not be fed. Of a state of size 0 (``1x0x64``, a cache that is empty at first) nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from engine.errors import ConfigError, ModelError

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class FixedInput:
    """An input that becomes a constant.

    Attributes:
        name: of it.
        value: of all its elements.
        shape: of it; None where the file says it.
    """

    name: str
    value: float
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        shape = "" if self.shape is None else ":" + "x".join(map(str, self.shape))
        return f"{self.name}={self.value:g}{shape}"


def parse_fixed(text: str) -> FixedInput:
    """``NAME=NUMBER`` or ``NAME=NUMBER:SHAPE``; names may hold colons.

    Raises:
        ConfigError: ``text`` is of another form.
    """
    name, _, rest = text.rpartition("=")
    number, _, shape = rest.partition(":")
    sides = shape.lower().split("x") if shape else []
    try:
        if not name or not all(side.isdecimal() for side in sides):
            raise ValueError
        return FixedInput(name, float(number), tuple(map(int, sides)) if shape else None)
    except ValueError as error:
        raise ConfigError(
            f"--fix {text}: expected NAME=NUMBER, or NAME=NUMBER:SHAPE, such as state=0:2x1x128"
        ) from error


@contextmanager
def with_fixed_inputs(path: Path, fixed: Sequence[FixedInput]) -> Iterator[Path]:
    """A file with the network of ``path`` in which inputs are constants, while the context lasts; ``path`` without any.

    Raises:
        ConfigError: there is no such input, its shape is open, or none would be left.
        ModelError: weights outside the file are missing, or too large for one file.
    """
    import onnx

    if not fixed:
        yield path
        return
    try:
        model = onnx.load(path)
        fix_inputs(model, path, fixed)
        content = model.SerializeToString()
    except (ValueError, onnx.checker.ValidationError, FileNotFoundError) as error:
        raise ModelError(f"{path}: its weights cannot be put into one file: {error}") from error
    with TemporaryDirectory(prefix="ptqlab-fixed-") as folder:
        made = Path(folder) / path.name
        made.write_bytes(content)
        yield made


def fix_inputs(model: onnx.ModelProto, path: Path, fixed: Sequence[FixedInput]) -> None:
    """Make inputs of ``model`` constants, in place; messages name ``path``. Raises as :func:`with_fixed_inputs`."""
    from onnx import helper, numpy_helper

    graph = model.graph
    for each in fixed:
        value = next((value for value in inputs_of(model) if value.name == each.name), None)
        if value is None:
            names = ", ".join(value.name for value in inputs_of(model))
            raise ConfigError(f"--fix {each}: {path} has no input {each.name!r}; its inputs are {names}")
        shape = _fixed_shape(each, value, path)
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        graph.input.remove(value)
        graph.initializer.append(numpy_helper.from_array(np.full(shape, each.value).astype(kind), each.name))
    if not inputs_of(model):
        raise ConfigError(f"{path}: --fix leaves no input that could be fed")


def _fixed_shape(each: FixedInput, value: onnx.ValueInfoProto, path: Path) -> tuple[int, ...]:
    declared = value.type.tensor_type.shape.dim
    if each.shape is None:
        if any(_is_open(dim) for dim in declared):
            raise ConfigError(
                f"--fix {each}: input {each.name} of {path} is {shape_words(value)}: say its shape, {example(value)}"
            )
        return tuple(dim.dim_value for dim in declared)
    fits = len(each.shape) == len(declared) and all(
        dim.dim_value in (-1, 0, side) for dim, side in zip(declared, each.shape, strict=True)
    )
    if not fits:
        raise ConfigError(f"--fix {each}: input {each.name} of {path} is {shape_words(value)}")
    return each.shape


def inputs_of(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Inputs that must be fed."""
    known = {entry.name for entry in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in known]


def shape_words(value: onnx.ValueInfoProto) -> str:
    """The shape of an input as messages have it: ``?`` where the file leaves a dimension open."""
    dims = value.type.tensor_type.shape.dim
    return "x".join("?" if _is_open(dim) else str(dim.dim_value) for dim in dims) or "one number"


def example(value: onnx.ValueInfoProto) -> str:
    """The option that makes ``value`` a constant: zeros, open dimensions of length 1."""
    dims = value.type.tensor_type.shape.dim
    shape = tuple(1 if _is_open(dim) else dim.dim_value for dim in dims)
    return f"--fix {FixedInput(value.name, 0, shape if any(map(_is_open, dims)) else None)}"


def _is_open(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether the file leaves a dimension open; of one that is 0 it says so."""
    return not dim.HasField("dim_value") or dim.dim_value < 0


def next_steps(values: Sequence[onnx.ValueInfoProto], *, as_arrays: bool = True) -> str:
    """What to do about a network with several inputs, or with another one than an image, in words.

    Args:
        values: the inputs.
        as_arrays: whether arrays can be fed to all of them.
    """
    main = next((value for value in values if _is_image(value)), values[0])
    others = [value for value in values if value is not main]
    steps = []
    if others:
        steps.append(f"make constants of inputs that never change: {' '.join(map(example, others))}")
    if others and as_arrays:
        folders = ", ".join(f"DIR/{value.name}/0.npy" for value in values)
        steps.append(f"give arrays to --images, in a folder per input: {folders}, …")
    if not others and as_arrays:
        steps.append("give --images a folder of arrays (.npy), one per sample")
    unknown = [value for value in values if {"?", "0"} & set(shape_words(value).split("x"))]
    shapes = " ".join(f"--input-shape {value.name} SHAPE" for value in unknown)
    steps.append(
        "convert without a score: hb_mapper makertbin, with input_name, input_shape and cal_data_dir joined by ';'"
        if others
        else "convert without a score: hb_mapper makertbin with input_type_train: featuremap"
    )
    if shapes:
        steps.append(f"look at it first: hb_mapper checker {shapes}")
    listed = "\n".join(f"  - {step}" for step in steps)
    return f"What you can do (docs/own_network.md):\n{listed}"


def _is_image(value: onnx.ValueInfoProto) -> bool:
    dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    return len(dims) == 4 and (dims[1] in (1, 3) or dims[3] in (1, 3))
