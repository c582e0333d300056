"""What passes require of a graph and ensure of their result; onnx-ir asks both whenever a pass is called.

Every condition is that no node of the graph is of some kind, so that it takes one walk over the graph, and its error
names the node that breaks it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True)
class Condition:
    """No node of the main graph is such that :attr:`broken_by` holds.

    Attributes:
        text: what holds, for messages.
        broken_by: whether a node breaks it.
    """

    text: str
    broken_by: Callable[[ir.Node], bool]

    def breach(self, model: ir.Model) -> str | None:
        """What a message says of the first node that breaks it; None where it holds."""
        node = next((node for node in model.graph if self.broken_by(node)), None)
        return None if node is None else f"{self.text}, but node {node.name} ({node.op_type}) breaks that"


def _is_inner_constant(node: ir.Node) -> bool:
    """A ``Constant`` that is an output of the model stays a node: every output is one of a node."""
    constant = node.op_type == "Constant" and node.domain in ("", "ai.onnx")
    return constant and not node.outputs[0].is_graph_output()


CONSTANTS_ARE_INITIALIZERS = Condition("constants are initializers", _is_inner_constant)


class GraphPass(ir.passes.InPlacePass):
    """A pass on the float graph, with the conditions before and after it.

    Attributes:
        needs: what it requires.
        gives: what it ensures.
    """

    needs: tuple[Condition, ...] = (CONSTANTS_ARE_INITIALIZERS,)
    gives: tuple[Condition, ...] = ()

    def requires(self, model: ir.Model) -> None:
        """Check :attr:`needs`.

        Raises:
            PreconditionError: one does not hold.
        """
        for condition in self.needs:
            breach = condition.breach(model)
            if breach is not None:
                raise ir.passes.PreconditionError(f"requires that {breach}")

    def ensures(self, model: ir.Model) -> None:
        """Check :attr:`gives`.

        Raises:
            PostconditionError: one does not hold.
        """
        for condition in self.gives:
            breach = condition.breach(model)
            if breach is not None:
                raise ir.passes.PostconditionError(f"ensures that {breach}")
