"""A calibrated model as the debugger sees it: regular nodes, weight and activation calibration nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import onnx
import onnx_ir as ir

from engine.calibrate.methods.sensitivity import calibrations_by_node
from engine.debug.analysis.variants import FLOAT, Variant, dynamic_values, switch
from engine.errors import ConfigError, ModelError, hint
from engine.floats.fake_quantization import lower_calibration
from engine.frontend.shapes import infer_shapes
from engine.ir import calibration_nodes, constant_of, is_calibration, load_model, read_calibration, static_shape

ModelOrFile = ir.Model | onnx.ModelProto | str | os.PathLike[str]


class NodeType(StrEnum):
    """Kinds of nodes of a calibrated model.

    Attributes:
        NODE: a regular node that reads calibrated tensors.
        WEIGHT: an ``HzCalibration`` of a constant.
        ACTIVATION: an ``HzCalibration`` of a tensor that is computed, or of an input.
    """

    NODE = "node"
    WEIGHT = "weight"
    ACTIVATION = "activation"


class DebugModel:
    """A calibrated model, ours or the original toolchain's, with its nodes by name and kind.

    Args:
        model_or_file: the model in memory, as ``onnx`` or ``onnx_ir`` has it, or its file; not changed.

    Raises:
        ModelError: it is no ONNX model, or has no calibrated tensors.
    """

    def __init__(self, model_or_file: ModelOrFile) -> None:
        self.model = _read(model_or_file)
        in_memory = isinstance(model_or_file, ir.Model | onnx.ModelProto)
        self.name = str(self.model.graph.name or "model") if in_memory else Path(str(model_or_file)).stem
        self.calibrations = {
            str(node.name): node
            for node in calibration_nodes(self.model)
            if read_calibration(node).scales.size and read_calibration(node).switch == "ON"
        }
        if not self.calibrations:
            raise ModelError(f"{self.name}: has no HzCalibration node with thresholds; give a calibrated model")
        _complete_shapes(self.model)

    @cached_property
    def nodes(self) -> dict[str, ir.Node]:
        """Regular nodes by name."""
        return {str(node.name): node for node in self.model.graph if not is_calibration(node)}

    @cached_property
    def dynamic(self) -> set[ir.Value | None]:
        """The tensors that depend on the inputs of the model."""
        return dynamic_values(self.model.graph)

    @cached_property
    def groups(self) -> dict[str, Variant]:
        """The ``HzCalibration`` nodes that each quantisable regular node reads, in graph order."""
        found = calibrations_by_node(self.model)
        groups = {name: frozenset(members).intersection(self.calibrations) for name, members in found.items()}
        return {name: members for name, members in groups.items() if members}

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the graph's outputs."""
        return tuple(str(value.name) for value in self.model.graph.outputs)

    @property
    def all(self) -> Variant:
        """The variant that quantises everything."""
        return frozenset(self.calibrations)

    def kind(self, name: str) -> NodeType:
        """Kind of the node called ``name``.

        Raises:
            ConfigError: there is no such node, or it is a calibration node that does not quantise.
        """
        if name in self.calibrations:
            weight = constant_of(self.calibrations[name].inputs[0]) is not None
            return NodeType.WEIGHT if weight else NodeType.ACTIVATION
        if name in self.nodes:
            return NodeType.NODE
        raise ConfigError(
            f"node {name!r} is not in the calibrated model {self.name}, or does not quantise"
            f"{hint(str(name), [*self.nodes, *self.calibrations])}"
        )

    def of_kind(self, kind: NodeType) -> tuple[str, ...]:
        """Names of the quantisable nodes of a kind, in graph order."""
        if kind is NodeType.NODE:
            return tuple(self.groups)
        return tuple(name for name in self.calibrations if self.kind(name) is kind)

    def variant(self, names: Sequence[str]) -> Variant:
        """The variant that quantises the nodes ``names``; ``weight`` and ``activation`` stand for all of that kind.

        Raises:
            ConfigError: a node is not in the model.
        """
        found = FLOAT
        for name in names:
            if name in (NodeType.WEIGHT, NodeType.ACTIVATION) and name not in self.nodes:
                found |= frozenset(self.of_kind(NodeType(name)))
            elif self.kind(name) is NodeType.NODE:
                found |= self.groups.get(name, FLOAT)
            else:
                found |= {name}
        return found

    def output_of(self, name: str) -> str:
        """Name of the first output of a regular node.

        Raises:
            ConfigError: there is no such node.
        """
        if self.kind(name) is not NodeType.NODE:
            raise ConfigError(f"node {name!r} is a calibration node; a regular node is needed")
        return str(self.nodes[name].outputs[0].name)


def _read(model_or_file: ModelOrFile) -> ir.Model:
    if isinstance(model_or_file, ir.Model):
        return model_or_file.clone()
    if isinstance(model_or_file, onnx.ModelProto):
        return ir.from_proto(model_or_file)
    if not isinstance(model_or_file, (str, os.PathLike)):
        kind = type(model_or_file).__name__
        raise ModelError(f"model_or_file is a {kind}; give a calibrated model or its file")
    return load_model(model_or_file)


def _complete_shapes(model: ir.Model) -> None:
    """Give every tensor of ``model`` its shape and type where its file does not state them."""
    values = [value for node in model.graph for value in node.outputs]
    if all(static_shape(value) is not None for value in values):
        return
    plain = model.clone()
    switch(plain, FLOAT)
    shaped = infer_shapes(lower_calibration(plain), Path(model.graph.name or "model"))
    known = {value.name: value for node in shaped.graph for value in node.outputs}
    for node in model.graph:
        for value in node.outputs:
            found = node.inputs[0] if is_calibration(node) else known.get(value.name)
            if found is not None:
                value.shape, value.type = found.shape, found.type
