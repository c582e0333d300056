"""What the optimiser does differently per march (measured on the goldens; OPERATORS.md, ARITHMETIC.md 2.6)."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import UnsupportedError


@dataclass(frozen=True)
class GraphRules:
    """Rewrites that depend on the march.

    Attributes:
        pooling_window: largest side of an averaging window that one depthwise convolution computes.
        global_pooling_as_conv: whether ``GlobalAveragePool`` (and a window that covers the map) becomes convolutions.
        argmax_keeps_axis: whether an ``ArgMax`` that drops the channels keeps them and reshapes, to run on the BPU.
        dense_output_prefix: prefix of the convolution's output that replaces a ``Gemm``'s.
        dense_reshape_suffix: suffix of the ``Reshape`` behind it.
    """

    pooling_window: int
    global_pooling_as_conv: bool
    argmax_keeps_axis: bool
    dense_output_prefix: str
    dense_reshape_suffix: str


_BAYES = GraphRules(
    pooling_window=7,
    global_pooling_as_conv=False,
    argmax_keeps_axis=True,
    dense_output_prefix="transposed_replaced_",
    dense_reshape_suffix="_transpose_output_reshape",
)
_BERNOULLI2 = GraphRules(
    pooling_window=7,
    global_pooling_as_conv=True,
    argmax_keeps_axis=False,
    dense_output_prefix="replaced_",
    dense_reshape_suffix="_reshape_output",
)

RULES = {"bayes": _BAYES, "bayes-e": _BAYES, "bernoulli2": _BERNOULLI2}


def rules_for(march: str) -> GraphRules:
    """The rules of ``march``.

    Raises:
        UnsupportedError: there is no such march.
    """
    if march not in RULES:
        raise UnsupportedError(f"User input march invalid: {march!r} . It should in list {sorted(RULES)}")
    return RULES[march]
