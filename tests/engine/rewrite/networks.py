"""Small networks in the forms that exporters write, rewritten and compared."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from engine.optimize.checked import CheckedPasses
from engine.optimize.cleanup import RemoveUnusedNodes
from engine.optimize.constants import FoldConstants, LiftConstants
from engine.rewrite.base import Rewrite
from engine.rewrite.proof import ExactOutputs
from tests.engine.spelled import network

HEAD = "c = Relu(Conv(x, W(8, 4, 3, 3), W(8), pads=[1, 1, 1, 1])); "
TAIL = "; z = Conv(y, W(4, 8, 1, 1), W(4))"
MAP = (1, 4, 8, 8)
TOKENS = "q = Add(MatMul(Transpose(Reshape(c, [1, 8, 64]), perm=[0, 2, 1]), W(8, 24)), W(24)); "


def source(text: str, opset: int = 13, shape: Sequence[int] = MAP) -> ir.Model:
    """The network of ``text`` (:func:`tests.engine.spelled.network`), its lines joined by semicolons."""
    model = ir.from_proto(network(text.replace("; ", "\n").replace(";", "\n"), opset, shape))
    CheckedPasses(model).run((LiftConstants(), FoldConstants(), RemoveUnusedNodes()))
    return model


def rewritten(change: Rewrite, before: ir.Model) -> ir.Model:
    """What ``change`` makes of ``before``: the shapes of new nodes are inferred, and the outputs compared."""
    after = before.clone()
    checked = CheckedPasses(after)
    checked.run((change,))
    checked.run((FoldConstants(), RemoveUnusedNodes()))
    comparison = ExactOutputs.of(before).compare(after)
    assert comparison.equal, comparison.words
    return after


def operators(model: ir.Model) -> list[str]:
    """Operator types in order."""
    return [node.op_type for node in model.graph]


def stays(change: Rewrite, before: ir.Model) -> bool:
    """Whether ``change`` finds nothing to do."""
    return not change(before.clone()).modified
