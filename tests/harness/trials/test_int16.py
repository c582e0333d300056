"""Which nodes an int16 policy asks for."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from engine.errors import ConfigError
from harness.suites.settings import Int16Kind, Int16Policy, Settings
from harness.trials.int16 import int16_nodes, without_ranking

GRAPH = ir.Model(
    ir.Graph(
        [], [], nodes=[ir.node(kind, [], name=name) for name, kind in (("b", "Conv"), ("a", "Relu"), ("c", "Conv"))]
    ),
    ir_version=8,
)


@pytest.mark.parametrize(
    ("kind", "names", "expected"),
    [
        (Int16Kind.NONE, (), ()),
        (Int16Kind.ALL, (), ("b", "a", "c")),
        (Int16Kind.NODES, ("c", "a"), ("c", "a")),
        (Int16Kind.TYPES, ("Conv",), ("b", "c")),
        (Int16Kind.TYPES, ("Relu", "Conv"), ("b", "a", "c")),
    ],
)
def test_nodes_of_a_policy(kind: Int16Kind, names: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert int16_nodes(GRAPH, Int16Policy(kind=kind, names=names)) == expected


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Int16Policy(kind=Int16Kind.NODES, names=("a", "d")), "unknown int16 node 'd'.* Allowed: a, b, c"),
        (Int16Policy(kind=Int16Kind.NODES, names=("d", "a", "e")), "unknown int16 node 'd'.*; unknown int16 node 'e'"),
        (Int16Policy(kind=Int16Kind.TYPES, names=("Conv", "Rellu")), "unknown int16 operator type 'Rellu'.*'Relu'"),
        (Int16Policy(kind=Int16Kind.TOP_K, count=3), "int16.top_3: its nodes have not been selected yet"),
    ],
)
def test_policies_that_cannot_be_met(policy: Int16Policy, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        int16_nodes(GRAPH, policy)


def test_only_a_ranking_waits_for_its_nodes() -> None:
    ranked = Settings(int16=Int16Policy(kind=Int16Kind.TOP_K, count=3), per_channel=True)
    assert without_ranking(ranked) == Settings(per_channel=True)
    named = Settings(int16=Int16Policy(kind=Int16Kind.NODES, names=("a",)))
    assert without_ranking(named) is named
