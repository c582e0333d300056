"""Inputs that become constants (``--fix``), and what to do about a network with inputs that cards cannot feed.

A size that is always the same, a sampling rate, a state that begins with zeros: what does not change from sample to
sample need not be fed (:mod:`engine.frontend.fixed`). Of a state of size 0 (``1x0x64``, a cache that is empty at first)
nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from engine.errors import ConfigError
from harness.onboarding.convertible import read_float_model

if TYPE_CHECKING:
    import onnx


@contextmanager
def with_fixed_inputs(
    path: Path, fixed: Mapping[str, Sequence[float]], shapes: Mapping[str, Sequence[int]]
) -> Iterator[Path]:
    """A file with the network of ``path`` in which inputs are constants, while the context lasts; else ``path`` itself.

    Args:
        path: ONNX file.
        fixed: values by input. Inputs without elements become constants beside others in any case.
        shapes: of inputs of ``fixed`` whose shape the file leaves open.

    Raises:
        ConfigError: there is no such input, its shape is open, or none would be left.
        ModelError: the file cannot be read.
    """
    from engine.frontend.fixed import fix_settings
    from engine.frontend.onnx import empty_inputs
    from engine.ir import load_model, save_model, take_initializers_out

    others = sorted(set(shapes) - set(fixed))
    if others:
        raise ConfigError(
            f"--input-shape {others[0]}: is for inputs that --fix makes constants; --size gives the size of an image, "
            "and arrays have theirs"
        )
    if not fixed and not any(_is_empty(value) for value in inputs_of(read_float_model(path))):
        yield path
        return
    model = load_model(path)
    take_initializers_out(model)
    if not fixed and not empty_inputs(model):
        yield path
        return
    fix_settings(model, fixed, shapes, path)
    with TemporaryDirectory(prefix="ptqlab-fixed-") as folder:
        yield save_model(model, Path(folder) / path.name)


def _is_empty(value: onnx.ValueInfoProto) -> bool:
    return "0" in shape_words(value).split("x")


def inputs_of(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Inputs that must be fed."""
    known = {entry.name for entry in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in known]


def shape_words(value: onnx.ValueInfoProto) -> str:
    """The shape of an input as messages have it: ``?`` where the file leaves a dimension open."""
    dims = value.type.tensor_type.shape.dim
    return "x".join("?" if _is_open(dim) else str(dim.dim_value) for dim in dims) or "one number"


def example(value: onnx.ValueInfoProto) -> str:
    """The options that make ``value`` a constant: zeros, open dimensions of length 1."""
    shape = "x".join("1" if _is_open(dim) else str(dim.dim_value) for dim in value.type.tensor_type.shape.dim)
    return f"--fix {value.name}=0" + (f" --input-shape {value.name}={shape}" if "?" in shape_words(value) else "")


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
    shapes = " ".join(f"--input-shape {value.name}=SHAPE" for value in values if "?" in shape_words(value))
    steps.append(
        "convert without a score: hb_mapper makertbin; lists of its YAML file (input_name, input_shape, cal_data_dir) "
        "are joined by ';', and it takes --fix as well"
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
