"""Documentation of a conversion's parameters, generated from the model that checks them.

Descriptions are the ``Attributes`` of the groups' docstrings, values and defaults those of their fields.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from engine.chips import (
    HB_COMPILE_MARCHES,
    HB_MAPPER_MARCHES,
    ChipFamily,
    March,
    ToolchainName,
    load_chip,
    marches_where,
)
from engine.config import GROUPS, OWN_OPTIMIZATIONS
from engine.config.dialect import OPTIMIZE_LEVELS
from engine.extensions import OwnName
from engine.terms import SUPPORTED_CONVERSIONS, InputType

_EXAMPLES: Mapping[str, str] = {
    "onnx_model": "model.onnx",
    "output_model_file_prefix": "model",
    "working_dir": "model_output",
    "input_type_train": "rgb",
    "input_layout_train": "NCHW",
    "input_type_rt": "nv12",
    "norm_type": "data_mean_and_scale",
    "mean_value": "123.675 116.28 103.53",
    "scale_value": "0.01712475 0.017507 0.01742919",
    "cal_data_dir": "calibration_data",
    "cal_data_type": "float32",
    "calibration_type": "default",
    "compile_mode": "latency",
    "optimize_level": "O3",
}
"""What a template sets; all other parameters are comments in it."""

_SOME_MARCHES: Mapping[str, tuple[March, ...]] = {
    "core_num": marches_where(lambda chip: chip.family is ChipFamily.BERNOULLI),
    "set_node_data_type": marches_where(lambda chip: chip.int16 and chip.toolchain is ToolchainName.HB_MAPPER),
    "input_layout_rt": HB_MAPPER_MARCHES,
    "norm_type": HB_MAPPER_MARCHES,
    "cal_data_type": HB_MAPPER_MARCHES,
    "std_value": HB_COMPILE_MARCHES,
    "quant_config": HB_COMPILE_MARCHES,
}
"""Parameters that some marches do not have."""

_S100_EXAMPLES: Mapping[str, str] = {"optimize_level": OPTIMIZE_LEVELS[-1]}
"""What a template for the S100 sets instead."""

_DEPRECATED: Mapping[str, str] = {
    "set_node_data_type": "node_info",
    "run_on_cpu": "node_info",
    "run_on_bpu": "node_info",
}
"""Older parameters and what replaces them."""

_SEPARATED = "several separated by `;`"


@dataclass(frozen=True)
class Parameter:
    """One parameter as documentation shows it.

    Attributes:
        name: key in YAML.
        description: one paragraph.
        values: what is allowed, in words; empty where anything is.
        default: as YAML; ``None`` where it must be given.
    """

    name: str
    description: str
    values: str
    default: str | None


_OF_DIALECT: Mapping[str, tuple[Parameter, ...]] = {
    "input_parameters": (
        Parameter(
            "std_value",
            "Standard deviation to divide by, instead of `scale_value`, one value or one per channel.",
            f"positive numbers separated by spaces, or `None`, {_SEPARATED}",
            "",
        ),
    ),
    "calibration_parameters": (
        Parameter(
            "quant_config",
            "Settings of precision, as a mapping or the path of a JSON file: `model_config` (`activation`: "
            "`calibration_type`, `max_percentile`, `per_channel`, `asymmetric`; `weight`: `bias_correction`; "
            "`model_output_type`), `op_config` and `node_config` (`qtype` by type or name of a node, which also asks "
            "for the BPU).",
            "`qtype`: `int8`, `int16`",
            "",
        ),
    ),
}
"""Parameters that only the dialect of `hb_compile` has (:mod:`engine.config.dialect`), by group."""


def group_parameters(name: str, march: March) -> tuple[Parameter, ...]:
    """The parameters of a group for ``march``, in its order."""
    given = (*parameters(GROUPS[name]), *_OF_DIALECT.get(name, ()))
    return tuple(each for each in given if march in _SOME_MARCHES.get(each.name, tuple(March)))


def parameters(group: type[BaseModel]) -> tuple[Parameter, ...]:
    descriptions: dict[str, str] = {}
    for kind in reversed(group.__mro__):  # a group says nothing of what it inherits
        descriptions |= dict(_descriptions(kind.__doc__ or ""))
    return tuple(
        Parameter(
            name=name,
            description=descriptions[name],
            values=_values(field.annotation, field.metadata),
            default=None if field.is_required() else _default(field),
        )
        for name, field in group.model_fields.items()
    )


def template(march: March) -> str:
    """A commented YAML file for ``march`` that loads as it stands; optional parameters are comments in it."""
    lines = [
        f"# Conversion for march {load_chip(march).title}, by {_command(march)}.",
        "# All parameters. Those after a # have the value shown unless set.",
    ]
    for name, group in GROUPS.items():
        given = name != "custom_op"
        lines += ["", f"# {_summary(group)}", f"{'' if given else '# '}{name}:"]
        for parameter in group_parameters(name, march):
            lines += _template_lines(parameter, march)
    return "\n".join(lines) + "\n"


def _template_lines(parameter: Parameter, march: March) -> Iterator[str]:
    yield f"  # {parameter.description}"
    if parameter.values:
        yield f"  #   {parameter.values.replace('`', '')}"
    examples = {**_EXAMPLES, **(_S100_EXAMPLES if march in HB_COMPILE_MARCHES else {}), "march": march.value}
    if parameter.name in examples:
        yield f"  {parameter.name}: '{examples[parameter.name]}'"
    else:
        yield f"  # {parameter.name}: {parameter.default or ''}".rstrip()


def _extrapolations() -> str:
    """A sentence on the figures for the marches of ``hb_compile``; empty if all were measured."""
    remarks = dict.fromkeys(filter(None, (load_chip(march).extrapolation for march in HB_COMPILE_MARCHES)))
    return f" Rules, limits, integers and latency of these marches are {'; '.join(remarks)}." if remarks else ""


def _command(march: March) -> str:
    return load_chip(march).toolchain.value


def reference_page(command: str = "hb_mapper") -> str:
    """The page ``docs/configuration.md``, or ``docs/configuration_s100.md`` for ``hb_compile``."""
    marches = [march for march in March if _command(march) == command]
    parts = [_INTRODUCTION if command == "hb_mapper" else _S100_INTRODUCTION]
    for name, group in GROUPS.items():
        parts.append(f"## `{name}`\n\n{_summary(group)}\n")
        found = dict.fromkeys(parameter for march in marches for parameter in group_parameters(name, march))
        ordered = [each for each in (*parameters(group), *_OF_DIALECT.get(name, ())) if each in found]
        rows = [
            "| parameter | meaning | values | default |",
            "|---|---|---|---|",
            *(_row(each, marches) for each in ordered),
        ]
        parts.append("\n".join(rows) + "\n")
    parts.append(_conversions())
    parts.append(_RULES if command == "hb_mapper" else _S100_RULES)
    return "\n".join(parts)


def _row(parameter: Parameter, marches: Sequence[March]) -> str:
    notes = []
    if parameter.name in _DEPRECATED:
        notes.append(f"Older form of `{_DEPRECATED[parameter.name]}`.")
    having = [march for march in marches if march in _SOME_MARCHES.get(parameter.name, tuple(March))]
    if len(having) < len(marches):
        notes.append(f"Only {', '.join(march.value for march in having)}.")
    default = "**required**" if parameter.default is None else f"`{parameter.default}`" if parameter.default else ""
    cells = (f"`{parameter.name}`", " ".join([parameter.description, *notes]), parameter.values, default)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _conversions() -> str:
    """The table of legal formats."""
    runtime = [kind for kind in InputType if any(kind in row for row in SUPPORTED_CONVERSIONS.values())]
    lines = [
        "## Formats: `input_type_train` (rows) and `input_type_rt` (columns)\n",
        f"| | {' | '.join(kind.value for kind in runtime)} |",
        f"|---|{'---|' * len(runtime)}",
    ]
    for train, allowed in SUPPORTED_CONVERSIONS.items():
        lines.append(f"| {train.value} | {' | '.join('yes' if kind in allowed else '' for kind in runtime)} |")
    return "\n".join(lines) + "\n"


def _summary(group: type[BaseModel]) -> str:
    """First sentence of the docstring behind the group's name, with a capital."""
    text = " ".join((group.__doc__ or "").split("\n\n")[0].split())
    text = text.partition(": ")[2]
    return text[:1].upper() + text[1:].replace("``", "`")


def _descriptions(docstring: str) -> Iterator[tuple[str, str]]:
    """Name and text of each entry of ``Attributes``; entries of several names give each of them."""
    body = inspect.cleandoc(docstring).partition("Attributes:")[2]
    indent = " " * (len(body) - len(body.lstrip()) - 1)
    for entry in re.split(rf"\n{indent}(?=\S)", body)[1:]:
        names, _, text = entry.partition(":")
        text = " ".join(text.split()).replace("``", "`")
        for name in names.split(","):
            yield name.strip(), text[:1].upper() + text[1:]


def _values(annotation: Any, metadata: list[Any]) -> str:
    """What a field's type and limits allow, in words."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        return _values(inner, [*metadata, *more])
    if origin in (Union, types.UnionType):
        choices = [_values(item, metadata) for item in get_args(annotation) if item is not type(None)]
        return ", ".join(choice for choice in choices if choice)
    if origin is Literal:
        return ", ".join(f"`{item}`" for item in get_args(annotation))
    if origin is tuple and get_origin(get_args(annotation)[0]) is tuple:
        number = get_args(get_args(annotation)[0])[0]
        kind = "dimensions joined by x" if number is int else "numbers separated by spaces, or `None`"
        return f"{kind}, {_SEPARATED}"
    if origin is tuple:
        item = get_args(annotation)[0]
        absent = "or `None`" if type(None) in get_args(item) else ""
        return ", ".join(filter(None, [_values(item, []), absent, _SEPARATED]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"mapping of name to {_values(get_args(annotation)[1], []) or 'value'}"
    if isinstance(annotation, type) and issubclass(annotation, OwnName):
        return "registered names"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f"`{item.value}`" for item in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        keys = [field.alias or name for name, field in annotation.model_fields.items() if name != "input_types"]
        return f"mapping of {', '.join(f'`{key}`' for key in keys)}"
    if annotation is bool:
        return "`True`, `False`"
    return _limits(metadata) if annotation in (int, float) else ""


def _limits(metadata: list[Any]) -> str:
    least = next((item.ge for item in metadata if isinstance(item, annotated_types.Ge)), None)
    most = next((item.le for item in metadata if isinstance(item, annotated_types.Le)), None)
    if least is None:
        return ""
    return f"{least} or more" if most is None else f"{least} to {most}"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Enum):
        value = value.value
    return "" if value is None or value == () or value == {} else str(value)


_INTRODUCTION = """# Configuration

Generated from `engine.config` by `ptqlab config --reference`; a test keeps it up to date.

`ptqlab config --template MARCH` prints a commented file to start from. Several values in one parameter are separated by
`;`, in the order of `input_name`; `None` means "no value for this input". Paths are relative to the file's folder if
they exist there, otherwise to the working directory. Unknown keys are errors.
"""

_NEWER = ", ".join(HB_COMPILE_MARCHES)
_S100_INTRODUCTION = f"""# Configuration for the S100

Generated from `engine.config` by `ptqlab config --reference --command hb_compile`; a test keeps it up to date.

`hb_compile` reads a newer dialect of [the same parameters](configuration.md). `ptqlab config --template nash-e` prints
a commented file to start from, and all commands of ptqlab read it: a file that names {_NEWER} is in
this dialect.{_extrapolations()}

The results are `<prefix>.hbm` and `<prefix>_quantized_model.bc`. They have ptqlab's own formats under these names, and
their first line says so; the other models are `.onnx` files, as with `hb_mapper`.
"""

_S100_RULES = f"""## What differs from the dialect of `hb_mapper`

* Inputs keep the layout of the model: `input_layout_rt` is refused, the default of `input_layout_train` is `NCHW`.
* The normalisation follows from what is given: `mean_value`, and `scale_value` or `std_value`, not both for one input.
* Calibration data are `.npy` files, which name their own type.
* `optimize_level` is {", ".join(f"`{level}`" for level in OPTIMIZE_LEVELS)}.
* `debug_mode` also takes `dump_all_layers_output`, which is `layer_out_dump`.
* `quant_config` sets what `calibration_type`, `max_percentile`, `per_channel`, `optimization` and `node_info` set;
  if both are given, they must agree. `float16` is refused, because its arithmetic is not known.
* `input_batch` may be used with several inputs.
"""

_RULES = f"""## Rules between parameters

* A model is `onnx_model`, or `prototxt` with `caffe_model`.
* Every list of `input_parameters`, `cal_data_dir` and `cal_data_type` has one entry per input.
* `mean_value` and `scale_value` are required if `norm_type` names them; a `featuremap` has neither.
* Inputs of `nv12` and `yuv444` need even height and width.
* `input_space_and_range` has an effect only with `nv12`, `input_layout_rt` with all formats except `nv12`.
* `input_batch` above 1 needs a single input whose first dimension is 1; `hb_compile` allows several such inputs.
  Only the `.bin` has that batch; calibration samples and `.onnx` files keep theirs. Networks whose samples depend on
  each other are refused.
* `bernoulli2` has no int16, and no `yuv444` in `NCHW`; `core_num` 2 is for `bernoulli2` only.
* `cal_data_dir` is not required for `calibration_type` `load` and `skip`.
* `optimization` takes `asymmetric`, `bias_correction`, `run_fast`, `set_model_output_int8` (without effect on
  `bernoulli2`, with a warning), `set_model_output_int16`,
  `set_<OpType>_input_int16`, `set_<OpType>_output_int16`, `set_all_nodes_int16` (inputs of
  all nodes that can; the log names the others),
  `set_<OpType>_input_int8` and `set_<OpType>_output_int8` (both: computed on the BPU in 8 bits, as the zoo's YOLO
  configurations ask for Softmax), `lstm_batch_last` (accepted without effect, with a warning), and ptqlab's own options
  `run_<OpType>_on_bpu`, {", ".join(f"`{item}`" for item in OWN_OPTIMIZATIONS)}. `;` or `,` separates several.
* `op_register_files` and `custom_op_dir` must be given together; see [custom operators](custom_operators.md).
* An input whose `input_source` is `resizer` must have fewer than 18432 pixels.
"""
