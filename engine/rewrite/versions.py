"""Opset and ``ir_version`` that the original's converter takes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import onnx
import onnx_ir as ir

from engine.convert.original import OriginalTool
from engine.errors import ShipError
from engine.frontend.versions import opset_of
from engine.ir import attribute, shape_of
from engine.optimize.normalization import DecomposeNormalization
from engine.rewrite.base import Chain, Rewrite, has_shapes
from engine.ship.opset import give_regions, write_as_opset_11


class SupportedVersions(ir.passes.InPlacePass):
    """The operators as opset 11 writes them, and an ``ir_version`` that goes with it, where the original needs them.

    Operators that came later are written in terms of those of opset 11 where that is possible.

    Args:
        tool: the command of the original that the network is for.
        versions: opset and ``ir_version`` of the user's file.
    """

    name: ClassVar[str] = "versions"
    says: ClassVar[str] = "Opset and ir_version are brought to those that the original's converter takes."

    def __init__(self, tool: OriginalTool, versions: tuple[int, int]) -> None:
        super().__init__()
        self._tool = tool
        self._versions = versions
        self.places: list[str] = []
        self.requests: list[str] = []
        self.remarks: list[str] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        (opset, ir_version), (_, most), (_, newest) = self._versions, self._tool.opsets, self._tool.ir_versions
        if opset <= most and ir_version <= newest:
            return ir.passes.PassResult(model, False)
        if opset_of(model) > most:
            for change in (_LayerNormalizationInParts(), _ActivationsInParts()):
                change(model)
            try:
                write_as_opset_11(model)
            except ShipError as error:
                self.remarks.append(f"opset {opset}: {error}")
                return ir.passes.PassResult(model, False)
            give_regions(model)
        wanted = opset_of(model)
        lowest = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", wanted)])
        model.ir_version = min(model.ir_version, newest, lowest)
        self.places.append(f"opset {opset}, ir_version {ir_version} to opset {wanted}, ir_version {model.ir_version}")
        return ir.passes.PassResult(model, True)


class _LayerNormalizationInParts(DecomposeNormalization):
    """LayerNormalization of opset 17, written in older operators."""

    op_types = frozenset({"LayerNormalization"})


class _ActivationsInParts(Rewrite):
    """HardSwish, Mish, Gelu, of opsets 14, 18 and 20, in operators of opset 11."""

    name = "activations"
    says = "HardSwish, Mish and Gelu are written in operators of opset 11."
    op_types = frozenset({"Gelu", "HardSwish", "Mish"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        x = node.inputs[0]
        if x is None or not has_shapes(node) or attribute(node, "approximate", "none") != "none":
            return False
        shape = shape_of(x)
        if node.op_type == "HardSwish":
            gate = chain.add("HardSigmoid", [x], alpha=1 / 6, beta=0.5)
        elif node.op_type == "Mish":
            gate = chain.add("Tanh", [chain.add("Softplus", [x])])
        else:
            root = chain.constant("root", np.float32(np.sqrt(2.0)))
            error = chain.add("Erf", [chain.add("Div", [x, root], shape)])
            shifted = chain.add("Add", [error, chain.constant("one", np.float32(1.0))], shape)
            gate = chain.add("Mul", [shifted, chain.constant("half", np.float32(0.5))], shape)
        chain.add("Mul", [x, gate], shape)
        return True
