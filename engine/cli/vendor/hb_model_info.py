"""Command ``hb_model_info``: what a ``.bin`` file was made from and with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.chips import load_chip
from engine.cli.common import command_app, version_option
from engine.cli.console import say
from engine.errors import PtqlabError
from engine.terms import Layout
from engine.version import installed_version

if TYPE_CHECKING:
    import onnx_ir as ir

    from engine.compile import CompiledModel
    from engine.config import InputSpec

DELETED_NODES_FILE = Path("deleted_nodes_info.txt")

app = command_app("hb_model_info", __doc__)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command; ``arguments`` default to those of the process."""
    app(args=None if arguments is None else list(arguments))


@app.command()
def hb_model_info(
    model_file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A .bin file, plain or packed.")],
    name: Annotated[str | None, typer.Option("-m", help="Name of one model of a packed file.")] = None,
    _: Annotated[bool, version_option("hb_model_info")] = False,
) -> None:
    """Show the parameters, versions, inputs and outputs of a .bin file."""
    from engine.compile.pack import open_models

    say("Start hb_model_info....")
    say(f"hb_model_info version {installed_version()}")
    try:
        models = open_models(model_file, name)
    except PtqlabError as error:
        say(f"ERROR {error}", err=True)
        raise typer.Exit(error.exit_code) from None
    for model in models:
        _show(model)
    deleted = [node for model in models for node in model.removed]
    if deleted:
        from engine.ir import write_atomically

        lines = [node.model_dump_json() for node in deleted]
        write_atomically(DELETED_NODES_FILE, ("\n".join(lines) + "\n").encode())


def _show(model: CompiledModel) -> None:
    say(f"******** {model.name} info *********")
    say("############# model deps info #############")
    say(f"ptqlab version : {installed_version()}")
    say(f"BPU march : {load_chip(model.march).title}")
    for group, parameters in model.parameters.items():
        say(f"############# {group} info #############")
        if group == _INPUTS:
            _show_inputs(model)
        else:
            _show_pairs(parameters)
    if "compiler_parameters" not in model.parameters:
        say("############# compiler_parameters info #############")
        _show_pairs({key: str(option) for key, option in model.options.model_dump(mode="json").items()})
    from engine.frontend.preprocess import saved_inputs

    graph = model.model.graph
    specs = {spec.name: spec for spec in saved_inputs(model.model)}
    say("--------- input/output types -")
    say(f"model input types : {[_data_type(value, specs) for value in graph.inputs]}")
    say(f"model output types : {[_data_type(value, {}) for value in graph.outputs]}")
    for kind, values in (("input", graph.inputs), ("output", graph.outputs)):
        for value in values:
            shape = "x".join(str(dim) for dim in value.shape or ())
            dtype = "" if value.dtype is None else value.dtype.numpy().name
            spec = specs.get(str(value.name)) if kind == "input" else None
            camera = f", converted from {spec.type_rt.value.upper()}" if spec is not None and spec.is_image else ""
            say(f"model {kind} {value.name} : {shape} {dtype}{camera}")
    if model.removed:
        say("--------- deleted nodes -")
        for node in model.removed:
            say(f"deleted nodes: {node.name}")


_INPUTS = "input_parameters"


def _show_inputs(model: CompiledModel) -> None:
    """A block per input, and what concerns all of them."""
    from engine.frontend.preprocess import saved_inputs

    given = model.parameters[_INPUTS]
    folders = model.parameters.get("calibration_parameters", {}).get("cal_data_dir", "").split(";")
    for index, spec in enumerate(saved_inputs(model.model)):
        say("------")
        say(f"---------input info : {spec.name} ---------")
        _show_pairs(
            {
                "input_name": spec.name,
                "input_type_rt": spec.type_rt.value,
                "input_space&range": spec.space_and_range.value,
                "input_layout_rt": "None" if spec.layout_rt is None else spec.layout_rt.value,
                "input_type_train": spec.type_train.value,
                "input_layout_train": spec.layout_train.value,
                "norm_type": spec.norm_type.value,
                "input_shape": _trained_shape(model, spec),
                "mean_value": "".join(f"{value:g}," for value in spec.mean),
                "scale_value": "".join(f"{value:g}," for value in spec.scale),
                "cal_data_dir": folders[index] if index < len(folders) else "",
            }
        )
        say(f"---------input info : {spec.name} end -------")
    say("------")
    _show_pairs({key: given[key] for key in _OF_ALL_INPUTS if key in given})


def _trained_shape(model: CompiledModel, spec: InputSpec) -> str:
    """Shape of an input in the layout of the float model; the ``.bin`` may take images in another."""
    from engine.ir import shape_of

    value = next((value for value in model.model.graph.inputs if value.name == spec.name), None)
    shape = spec.shape or (() if value is None else shape_of(value))
    if spec.shape is None and spec.is_image and spec.layout_train is Layout.NCHW and shape[-1] in (1, 3):
        shape = (shape[0], shape[3], *shape[1:3])
    return "x".join(map(str, shape))


_OF_ALL_INPUTS = ("input_batch",)
"""Parameters of the group that are no list of one entry per input."""


def _show_pairs(pairs: Mapping[str, str]) -> None:
    width = max(map(len, pairs), default=0)
    for key, text in pairs.items():
        say(f"{key:<{width}} : {text}")


def _data_type(value: ir.Value, specs: Mapping[str, InputSpec]) -> str:
    """The format of an image that the board feeds, else the type of the tensor, as ``F32`` or ``S8``."""
    spec = specs.get(str(value.name))
    if spec is not None and spec.is_image:
        return spec.type_rt.value.upper()
    if value.dtype is None:
        return "UNKNOWN"
    kind = value.dtype.numpy()
    return f"{_LETTERS.get(kind.kind, kind.kind.upper())}{8 * kind.itemsize}"


_LETTERS = {"f": "F", "i": "S", "u": "U", "b": "BOOL"}
"""Prefixes of the board's names of types, by numpy's kind."""
