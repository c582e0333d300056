"""Files of newer and older versions of ONNX than the stages read, brought to one that they do.

onnx's own version converter rewrites the operators, of those that it has none for onnx's inliner writes the body that
the standard gives them; that the result computes the same is checked on random inputs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import UnsupportedError
from engine.frontend.folding import folded
from engine.ir import shape_of

MIN_OPSET = 9
MAX_OPSET = 19
MAX_IR_VERSION = 10

MARK_VERSIONS = "hz.versions"
"""Metadata of a converted model: opset and ``ir_version`` of its file, separated by a blank."""

_TOLERANCE = 1e-5
"""Largest relative difference of outputs that are equal."""

FOLDED_ELEMENTS = 1 << 20
"""Largest constant that is computed in the body of an operator: sizes and masks."""

_REMEDY = f"export the network at opset {MIN_OPSET} to {MAX_OPSET} (11 for the original's hb_mapper)"

logger = logging.getLogger(__name__)


def opset_of(model: ir.Model) -> int:
    """Version of the standard operators that ``model`` imports."""
    return model.opset_imports.get("", model.opset_imports.get("ai.onnx", 0))


def file_versions(model: ir.Model) -> tuple[int, int]:
    """Opset and ``ir_version`` of the file that ``model`` was read from."""
    opset, ir_version = model.metadata_props.get(MARK_VERSIONS, f"{opset_of(model)} {model.ir_version}").split()
    return int(opset), int(ir_version)


def at_supported_versions(
    model: ir.Model, path: Path, input_shapes: Mapping[str, Sequence[int]] | None = None
) -> ir.Model:
    """``model`` at an opset and ``ir_version`` that the stages read; as it is where they read its own.

    Args:
        model: of any version; used up.
        path: what messages name.
        input_shapes: shapes of dynamic inputs, for the check.

    Raises:
        UnsupportedError: it cannot be converted, or computes something else then.
    """
    opset, ir_version = opset_of(model), model.ir_version
    target = min(max(opset, MIN_OPSET), MAX_OPSET)
    bodies = _without_older_form(model, opset, target)
    if target == opset and ir_version <= MAX_IR_VERSION and not bodies:
        return model
    model.ir_version = min(ir_version, MAX_IR_VERSION)
    if target == opset and not bodies:
        logger.info("%s: its ir_version %d is read as %d", path, ir_version, MAX_IR_VERSION)
    else:
        before = ir.to_proto(model)
        written = _with_bodies(before, bodies, path)
        model = ir.from_proto(written) if target == opset else _converted(written, opset, target, path)
        said = _compared(before, ir.to_proto(model), input_shapes or {}, path)
        if bodies:
            logger.info("%s: its %s was written with older operators", path, ", ".join(bodies))
        if target != opset:
            logger.info("%s: opset %d was converted to %d by onnx's version converter; %s", path, opset, target, said)
    model.metadata_props[MARK_VERSIONS] = f"{opset} {ir_version}"
    return model


def _without_older_form(model: ir.Model, opset: int, target: int) -> list[str]:
    """Standard operators of ``model`` that ``target`` lacks or no longer allows, and that have a body of others."""
    nodes = ir.traversal.RecursiveGraphIterator(model.graph)
    found = {node.op_type for node in nodes if node.domain in ("", "ai.onnx")}
    return sorted(
        op_type
        for op_type in found
        if _has_body(op_type, opset)
        and (not onnx.defs.has(op_type, target, "") or onnx.defs.get_schema(op_type, target).deprecated)
    )


def _has_body(op_type: str, opset: int) -> bool:
    if not onnx.defs.has(op_type, opset, ""):
        return False
    schema: Any = onnx.defs.get_schema(op_type, opset)  # its stub lacks both
    return bool(schema.has_function or schema.has_context_dependent_function)


def _with_bodies(before: onnx.ModelProto, op_types: Sequence[str], path: Path) -> onnx.ModelProto:
    """``before`` with the operators ``op_types`` written as the standard defines them."""
    if not op_types:
        return before
    proto = onnx.ModelProto()
    proto.CopyFrom(before)
    known = {value.name for value in (*proto.graph.input, *proto.graph.value_info)}
    proto.graph.value_info.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in proto.graph.initializer
        if tensor.name not in known
    )
    chosen = [("", op_type) for op_type in op_types]
    try:
        proto = onnx.shape_inference.infer_shapes(proto)
        proto = onnx.inliner.inline_selected_functions(proto, chosen, inline_schema_functions=True)
    except (RuntimeError, ValueError) as error:
        raise UnsupportedError(
            f"{path}: {', '.join(op_types)} cannot be written with older operators ({_first_line(error)}): {_REMEDY}"
        ) from error
    model = ir.from_proto(proto)
    folded(model, FOLDED_ELEMENTS)
    return ir.to_proto(model)


def _converted(before: onnx.ModelProto, opset: int, target: int, path: Path) -> ir.Model:
    proto = onnx.ModelProto()
    proto.CopyFrom(before)
    # The converter of old files finds constants only among the inputs, as files of ir_version 3 have them.
    given = {value.name for value in proto.graph.input}
    constants = [tensor for tensor in proto.graph.initializer if tensor.name not in given]
    if opset < target:
        proto.graph.input.extend(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in constants
        )
    try:
        proto = onnx.version_converter.convert_version(proto, target)
    except (onnx.version_converter.ConvertError, RuntimeError, ValueError) as error:
        raise UnsupportedError(
            f"{path}: The opset version of the model is {opset}; {MIN_OPSET} to {MAX_OPSET} are supported, and onnx's "
            f"version converter cannot bring it to {target} ({_first_line(error)}): {_REMEDY}"
        ) from error
    kept = [value for value in proto.graph.input if value.name in given]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    return ir.from_proto(proto)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rpartition(": ")[2][:200]


def _compared(
    before: onnx.ModelProto, after: onnx.ModelProto, input_shapes: Mapping[str, Sequence[int]], path: Path
) -> str:
    """What the outputs of both models on random inputs tell.

    Raises:
        UnsupportedError: they differ.
    """
    feed = _random_feed(ir.from_proto(before), input_shapes)
    if feed is None:
        return "it was not checked: an input is dynamic"
    state = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    failures = (state.Fail, state.InvalidArgument, state.InvalidGraph, state.RuntimeException, state.NotImplemented)
    try:
        exact, found = _outputs(before, feed), _outputs(after, feed)
    except failures as error:
        return f"it was not checked: ONNX Runtime cannot run the file ({_first_line(error)})"
    for info, first, second in zip(before.graph.output, exact, found, strict=True):
        largest = float(np.abs(first).max(initial=0.0))
        if first.shape != second.shape or not np.allclose(
            first, second, rtol=_TOLERANCE, atol=_TOLERANCE * largest, equal_nan=True
        ):
            raise UnsupportedError(
                f"{path}: converted to opset {after.opset_import[0].version}, output {info.name!r} differs from that "
                f"of the file on random inputs: {_REMEDY}"
            )
    return "its outputs on random inputs are equal"


def _random_feed(
    model: ir.Model, input_shapes: Mapping[str, Sequence[int]]
) -> Mapping[str, NDArray[np.generic]] | None:
    """Random numbers for every input; None where a shape is not known. Integers are zero, for they may be indices."""
    rng, feed = np.random.default_rng(0), {}
    for value in model.graph.inputs:
        if value.name in model.graph.initializers:
            continue
        shape = input_shapes.get(str(value.name))
        if shape is None:
            if value.shape is None or not value.shape.is_static() or value.dtype is None:
                return None
            shape = shape_of(value)
        dtype = (value.dtype or ir.DataType.FLOAT).numpy()
        numbers = rng.normal(size=tuple(shape)) if np.issubdtype(dtype, np.floating) else np.zeros(tuple(shape))
        feed[str(value.name)] = numbers.astype(dtype)
    return feed


def _outputs(proto: onnx.ModelProto, feed: Mapping[str, NDArray[np.generic]]) -> list[NDArray[np.float64]]:
    # By name, only for files of other versions: it checks a model and makes none, so that a newer one changes no key.
    ort = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(output, np.float64) for output in session.run(None, dict(feed))]
