"""ONNX files to source models: checked, static shapes, every node named.

Accepts what the converter's documents name: opset 10 to 19, ``ir_version`` up to 10; opset 9 is read as well
(reference/calibration.md 6). Within these nothing is converted between opsets: a pass that meets a difference (inputs
instead of attributes, default axis) handles it where it reads the node. Other versions are brought to these
(:mod:`engine.frontend.versions`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import onnx_ir as ir
from onnx_ir.passes import InvariantError, PassError
from onnx_ir.passes.common import InlinePass

from engine.errors import ConfigError, ModelError, UnsupportedError, hint
from engine.frontend.consistency import check_consistency
from engine.frontend.control_flow import has_branches, put_branches_in_place
from engine.frontend.fixed import fix_settings
from engine.frontend.limits import refuse_unsupported
from engine.frontend.precision import compute_in_float32
from engine.frontend.prepared import take_out_calibration, take_out_preprocessing
from engine.frontend.shapes import brief, infer_before_branches, infer_shapes
from engine.frontend.trained import without_quantization
from engine.frontend.versions import at_supported_versions
from engine.ir import HORIZON_DOMAIN, load_model, take_initializers_out
from engine.ops.foreign import custom


def load_onnx(
    path: str | os.PathLike[str],
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    resize: bool = False,
    fixed: Mapping[str, Sequence[float]] | None = None,
) -> ir.Model:
    """Read an ONNX file as a source model.

    External data must lie in the model's folder. Functions local to the model are inlined, branches that a constant
    decides put in place. Float16 and float64 are taken as float32.

    Args:
        path: the ``.onnx`` file.
        input_shapes: shape per input name, for inputs that the file leaves dynamic.
        resize: whether ``input_shapes`` may also replace other dimensions than the file's dynamic ones, its rank kept.
        fixed: values of inputs that are settings, by name (:mod:`engine.frontend.fixed`).

    Returns:
        A model that the full ONNX checker accepts, with static inferred shapes on every tensor whose shape follows from
        the inputs, and a unique non-empty name on every node (``<OpType>_<index>`` where the file has none). Nodes
        ``HzCalibration`` and ``HzPreprocess`` are taken out (:mod:`engine.frontend.prepared`), so are
        pairs of ``QuantizeLinear`` and ``DequantizeLinear`` (:mod:`engine.frontend.trained`).

    Raises:
        ModelError: the file is missing, damaged, invalid, or an input stays dynamic.
        UnsupportedError: an opset that cannot be converted, an operator domain, the type of an input or control flow
            that depends on the data is not supported.
        ConfigError: ``input_shapes`` names an unknown input or contradicts the file.
    """
    path = Path(path)
    return to_source(read_onnx(path), path, input_shapes, resize=resize, fixed=fixed)


def read_onnx(path: Path) -> ir.Model:
    """The content of an ONNX file, nothing more than read.

    Raises:
        ModelError: the file is missing or damaged.
    """
    try:
        return load_model(path)
    except ir.serde.SerdeError as error:
        raise ModelError(f"{path}: not a valid ONNX model: {brief(error)}") from error


def input_names(model: ir.Model) -> tuple[str, ...]:
    """Names of the inputs of a model as :func:`read_onnx` gives it; initializers are none."""
    graph = model.graph
    return tuple(str(value.name) for value in graph.inputs if value.name not in graph.initializers)


def empty_inputs(model: ir.Model) -> tuple[str, ...]:
    """Names of inputs that have no elements beside others that have, such as the state of a cell at the start."""
    inputs = [value for value in model.graph.inputs if value.name not in model.graph.initializers]
    empty = [value for value in inputs if value.shape is not None and 0 in value.shape.dims]
    return tuple(str(value.name) for value in empty) if len(empty) < len(inputs) else ()


def to_source(
    model: ir.Model,
    path: Path,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    resize: bool = False,
    fixed: Mapping[str, Sequence[float]] | None = None,
    ends: Sequence[str] = (),
) -> ir.Model:
    """The source model of what :func:`read_onnx` gave, which is used up; ``path``: what messages name.

    It ends with the nodes ``ends``, where some are named (:func:`engine.frontend.outputs.cut`). For the rest see
    :func:`load_onnx`.
    """
    _inline_functions(model, path)
    take_out_calibration(model)
    take_out_preprocessing(model)
    model = at_supported_versions(without_quantization(model), path, input_shapes)
    check_domains(model, path)
    take_initializers_out(model)
    fix_settings(model, fixed or {}, input_shapes or {}, path)
    if compute_in_float32(model):
        logging.getLogger(__name__).info("%s: its float16 or float64 tensors are converted to float32", path)
    fix_input_shapes(model, input_shapes or {}, path, resize=resize)
    if has_branches(model, path):
        model = infer_before_branches(model, path)
        put_branches_in_place(model, path)
    return finish(model, path, ends)


def _inline_functions(model: ir.Model, path: Path) -> None:
    try:
        InlinePass()(model)
    except (InvariantError, PassError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: its functions cannot be inlined: {brief(error)}") from error


def finish(model: ir.Model, path: Path, ends: Sequence[str] = ()) -> ir.Model:
    """The last steps of every frontend: shapes inferred, the result checked, nodes named.

    Args:
        model: of static input shapes.
        path: what messages name.
        ends: names of the nodes that the result ends with; none: it ends with the model's own outputs.

    Raises:
        ConfigError: see :func:`engine.frontend.outputs.cut`.
        ModelError: there is no node or no input; see :func:`infer_shapes` and
            :func:`engine.frontend.consistency.check_consistency`.
        UnsupportedError: likewise; see :func:`engine.frontend.limits.refuse_unsupported`.
    """
    if not model.graph or not model.graph.inputs:
        raise ModelError(f"{path}: the model has no {'inputs' if model.graph else 'nodes'}")
    for value in model.graph.initializers.values():
        if value.shape is None and value.const_value is not None:  # one that is an output, declared without a shape
            value.shape = ir.Shape(value.const_value.shape.numpy())
    name_parts(model)
    if ends:
        name_nodes(model)
    model = infer_shapes(model, path, ends)
    name_nodes(model)
    check_consistency(model, path)
    refuse_unsupported(model, path)
    return model


def check_domains(model: ir.Model, path: Path) -> None:
    """Refuse operators of any domain but ONNX's own, save custom operators, which all become ``PyOp``."""
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        domain = node.domain
        standard = domain in ("", "ai.onnx")
        if standard and onnx.defs.has(node.op_type):
            continue
        if node.graph is not model.graph or not custom.adopt(node):
            if standard:
                continue  # the checker says what is wrong with it
            allowed = (
                "a conversion wrote this model; give the float model that it was made from"
                if domain == HORIZON_DOMAIN
                else "integer operators of ONNX Runtime; quantise with quant_format=QuantFormat.QDQ instead"
                if node.op_type.startswith(("QLinear", "QGemm", "DynamicQuantize"))
                else "operators that ONNX Runtime's optimiser writes; give the model as it was exported, or save it "
                "with GraphOptimizationLevel.ORT_ENABLE_BASIC, which writes none of them"
                if domain.startswith("com.microsoft")
                else "allowed are ai.onnx and, outside of subgraphs, custom operators that are registered (custom_op)"
            )
            raise UnsupportedError(
                f"{path}: unsupported domain detected in model: node {node.name!r} ({node.op_type}) is of domain "
                f"{domain!r}; {allowed}"
            )
        model.opset_imports.setdefault(custom.CUSTOM_DOMAIN, custom.CUSTOM_VERSION)


def fix_input_shapes(
    model: ir.Model, input_shapes: Mapping[str, Sequence[int]], path: Path, *, resize: bool = False
) -> None:
    """Give every input its static shape, from the file or from ``input_shapes``."""
    names = [str(value.name) for value in model.graph.inputs]
    for name in input_shapes:
        if name not in names and name not in model.graph.initializers:
            raise ConfigError(
                f"{path}: input_shape is given for {name!r}, the inputs of the model are {names}{hint(name, names)}"
            )
    _refuse_open(model.graph.inputs, input_shapes, path)
    changed = False
    for value in model.graph.inputs:
        if not isinstance(value.type, ir.TensorType):
            raise UnsupportedError(f"{path}: input {value.name!r} is of type {value.type}; only tensors are supported")
        changed |= _fix_input_shape(value, input_shapes.get(str(value.name)), path, resize=resize)
    if changed:
        _forget_inferred_shapes(model.graph)


def _refuse_open(values: Sequence[ir.Value], given: Mapping[str, Sequence[int]], path: Path) -> None:
    """Refuse inputs without a static shape, all at once, and say which option takes it."""
    shapes = {str(value.name): _own_shape(value) for value in values if isinstance(value.type, ir.TensorType)}
    found = {name: own for name, own in shapes.items() if name not in given and (own is None or None in own)}
    if not found:
        return
    listed = ", ".join(f"{name!r} {_readable(own)}" for name, own in found.items())
    example = {name: "SHAPE" if own is None else _readable([dim or 1 for dim in own]) for name, own in found.items()}
    options = " ".join(f"--input-shape {name}={shape}" for name, shape in example.items())
    yaml = {name: _readable(given[name]) if name in given else example.get(name, "None") for name in shapes}
    what = f"input {listed} is a dynamic shape" if len(found) == 1 else f"inputs {listed} are dynamic shapes"
    raise ModelError(
        f"{path}: {what}. Please give the sizes, for example: {options} (in YAML: input_shape: "
        f"{';'.join(yaml.values())})"
    )


def _own_shape(value: ir.Value) -> list[int | None] | None:
    """The shape that the file gives, None for every open dimension; None where it gives not even the rank."""
    if value.shape is None:
        return None
    return [dim if isinstance(dim, int) and dim > 0 else None for dim in value.shape]


def _fix_input_shape(value: ir.Value, wanted: Sequence[int] | None, path: Path, *, resize: bool) -> bool:
    """Apply ``wanted`` to the input ``value``; whether its shape changed."""
    own = _own_shape(value)
    if wanted is None:
        return False
    if any(dim < 1 for dim in wanted):
        raise ConfigError(
            f"{path}: input_shape {_readable(wanted)} of {value.name!r}: every dimension must be positive"
        )
    if own == [] and list(wanted) == [1]:  # a scalar, which a shape cannot be written for
        return False
    same_rank = own is None or len(own) == len(wanted)
    fits = same_rank and (own is None or all(a in (None, b) for a, b in zip(own, wanted, strict=True)))
    if not (fits or (resize and same_rank)):
        raise ConfigError(
            f"{path}: input_shape {_readable(wanted)} of {value.name!r} contradicts the model, whose shape is "
            f"{_readable(own)}"
        )
    value.shape = ir.Shape(wanted)
    return own is None or list(wanted) != own


def _readable(shape: Sequence[int | None] | None) -> str:
    return "of unknown rank" if shape is None else "x".join("?" if dim is None else str(dim) for dim in shape)


def _forget_inferred_shapes(graph: ir.Graph) -> None:
    """Drop shapes that were inferred, or declared for outputs, while an input was still dynamic."""
    for node in graph:
        for value in node.outputs:
            value.shape = None


def name_parts(model: ir.Model) -> None:
    """Name the outputs of every ``Split`` that are left out: ONNX Runtime cuts into as many parts as have names."""
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.op_type == "Split":
            for index, value in enumerate(node.outputs):
                value.name = value.name or f"{node.name or node.outputs[0].name}_part_{index}"


def name_nodes(model: ir.Model) -> None:
    """Give every node a unique name: ``<OpType>_<index>`` where it has none, a numeric suffix where names repeat."""
    used = {node.name for node in model.graph if node.name}
    seen: set[str] = set()
    for index, node in enumerate(model.graph):
        if node.name and node.name not in seen:
            seen.add(node.name)
            continue
        stem = node.name or f"{node.op_type}_{index}"
        name, number = stem, index
        while name in used:
            name, number = f"{stem}_{number}", number + 1
        node.name = name
        used.add(name)
        seen.add(name)
