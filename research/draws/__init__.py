"""Networks that are asked for their latency: single layers, pairs and blocks, drawn family by family from a seed.

A draw is the same wherever it is drawn: ``latency_draw(family, index, march)``. A single layer lies between two
convolutions of one tap (or between two dense layers, where it reads tokens), so that it is neither the first nor the
last, which run otherwise.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import onnx

from engine.chips import load_chip
from engine.conformance.hunt.grammar.drawing import Drawing
from engine.conformance.hunt.grammar.networks import draw_network
from engine.terms import OptimizeLevel
from research.draws.attention import ATTENTION
from research.draws.family import DrawFamily
from research.draws.layers import LAYERS
from research.draws.movements import MOVEMENTS

SEED = 41
"""Of the draws that the model is fitted to."""
APART = frozenset(
    {
        *range(4129, 4141),
        *range(4145, 4201, 5),
    }
)
"""Of whole networks that no fit sees: the first were frozen before rules were sought with what the original answers,
the second before those of O0 were, the third before those of O2 were sought anew; the others were looked at once.
"""
MOST_ELEMENTS = 1 << 20
"""Of the largest map of a draw."""
MOST_MACS = 1 << 29
"""Multiply-accumulates of a draw: the original computes it for its calibration."""

Key = tuple[str, int, str, int]
"""Family, number within it, march and seed of a draw."""

FAMILIES: Mapping[str, DrawFamily] = MappingProxyType({**LAYERS, **MOVEMENTS, **ATTENTION})
"""What is drawn, by name."""

NETWORKS = "network"
"""The family of whole networks of the hunt's grammar."""
UNFUSED = "_o0"
"""Behind the name of a family: the same layers and blocks, all at O0, where each takes what it takes by itself."""
WHOLE: Mapping[str, OptimizeLevel] = MappingProxyType(
    {NETWORKS: OptimizeLevel.O2, NETWORKS + UNFUSED: OptimizeLevel.O0}
)
"""Such families, and how they are compiled."""

_WIDE = frozenset(
    {"conv_int16", "elementwise_int16", "pool_int16", "concat_int16", "stack_int16", "body_int16", "ladder_int16"}
)
_OF_ANY_SIZE = frozenset({"image", "ladder", "ladder_int16"})

_MAY_BE_WIDE = frozenset({"Conv", "MatMul", "Add", "Sub", "Mul", "Concat", "Sigmoid", "AveragePool", "MaxPool"})


@dataclass(frozen=True)
class Drawn:
    """One network and how it is compiled.

    Attributes:
        family: what it shows.
        index: of the draw within its family.
        model: the float network.
        march: BPU architecture.
        level: ``optimize_level``.
        cores: ``core_num``.
        requests: ``node_info``: what is asked of nodes, by name.
        seed: of the draw.
    """

    family: str
    index: int
    model: onnx.ModelProto
    march: str
    level: OptimizeLevel
    cores: int
    requests: Mapping[str, Mapping[str, str]]
    seed: int = SEED

    @property
    def key(self) -> Key:
        """What names it."""
        return self.family, self.index, self.march, self.seed


def latency_draw(family: str, index: int, march: str, seed: int = SEED) -> Drawn:
    """The draw number ``index`` of ``family`` on ``march``.

    Raises:
        KeyError: there is no such family.
    """
    attempt = 0
    while True:
        found = _attempt((family, index, march, seed), attempt)
        if found is not None:
            return found
        attempt += 1


def _attempt(key: Key, attempt: int) -> Drawn | None:
    """A draw, or None where it is larger than a draw may be."""
    family, index, march, seed = key
    rng = random.Random(f"{seed}-{family}-{index}-{march}-{attempt}")
    if family in WHOLE:
        net = draw_network(seed, index)
    else:
        drawn = FAMILIES[family.removesuffix(UNFUSED)]
        net = Drawing(
            f"latency_{family}_{index}",
            drawn.shape(rng),
            (seed, index, attempt, *family.encode(), *march.encode()),
        )
        net.opset, net.unfolded, net.uneven = 11, False, 0.0
        net.activation = rng.choice(("relu", "relu", "relu", "silu", "hard_swish", "leaky_relu", "gelu"))
        net.output(drawn.build(net, "x"))
    model = net.model()
    if family.removesuffix(UNFUSED) not in _OF_ANY_SIZE and not _is_small(model):
        return None
    return Drawn(
        family, index, model, march, _level(rng, family), _cores(rng, key), _requests(rng, family, model, march), seed
    )


def _is_small(model: onnx.ModelProto) -> bool:
    known = {each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in _values(model)}
    weights = {each.name: list(each.dims) for each in model.graph.initializer}
    if max(map(math.prod, known.values())) > MOST_ELEMENTS:
        return False
    macs = 0
    for node in model.graph.node:
        if node.op_type == "Conv":
            macs += math.prod(known[node.output[0]]) * math.prod(weights[node.input[1]][1:])
        if node.op_type == "MatMul":
            macs += math.prod(known[node.output[0]]) * (known.get(node.input[0]) or weights[node.input[0]])[-1]
    return macs <= MOST_MACS


def _values(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    return [*model.graph.input, *model.graph.value_info, *model.graph.output]


def _level(rng: random.Random, family: str) -> OptimizeLevel:
    """Mostly O2, which is what people ship with; O0 is what the checker compiles with."""
    if family in WHOLE:
        return WHOLE[family]
    if family.endswith(UNFUSED):
        return OptimizeLevel.O0
    levels = (OptimizeLevel.O2, OptimizeLevel.O0, OptimizeLevel.O1, OptimizeLevel.O3)
    return rng.choices(levels, (76, 14, 5, 5))[0]


def _cores(rng: random.Random, key: Key) -> int:
    family, _, march, seed = key
    two = march == "bernoulli2" and rng.random() < 0.1
    return 2 if two and not (family in WHOLE and seed != SEED) else 1


def _requests(rng: random.Random, family: str, model: onnx.ModelProto, march: str) -> dict[str, dict[str, str]]:
    """int16 for all nodes of some draws, and Softmax on the BPU: it would run on the CPU by itself."""
    if not load_chip(march).int16:
        return {}
    wide = family.removesuffix(UNFUSED) in _WIDE or (family not in WHOLE and rng.random() < 0.08)
    found = {}
    for node in model.graph.node:
        if wide and node.op_type in _MAY_BE_WIDE:
            found[node.name] = {"ON": "BPU", "InputType": "int16", "OutputType": "int16"}
        elif node.op_type == "Softmax" and family not in WHOLE:
            found[node.name] = {"ON": "BPU"}
    return found
