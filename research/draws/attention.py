"""Products of matrices, and what is around them in a transformer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from engine.conformance.hunt.grammar import attention
from engine.conformance.hunt.grammar.drawing import Drawing
from research.draws.family import DrawFamily, between, between_dense, one_of
from research.draws.sizes import many_tokens, matrices, narrow_map, small_map_or_tokens


def _product(net: Drawing, x: str) -> str:
    """Tokens times tokens, tokens times channels."""
    q, k = (net.dense(x, net.pick(16, 32, 64)) for _ in range(2))
    if net.dims(q) != net.dims(k):
        k = net.dense(k, net.dims(q)[2])
    scores = net.op("MatMul", q, net.transpose(k, 0, 2, 1))
    return net.op("MatMul", scores, net.dense(x, net.pick(16, 32, 64))) if net.chance(0.7) else scores


def _matmul(net: Drawing, x: str) -> str:
    """Two inputs, as many products of matrices as there are heads, and nothing else."""
    _, heads, _, depth = net.dims(x)
    other = net.input("y", 1, heads, depth, net.pick(4, 8, 16, 17, 24, 32, 49, 64, 100, 144, 196, 256))
    return net.op("MatMul", x, other)


def _scaled(net: Drawing, x: str) -> str:
    """Maps or tokens with constants: a number, one per channel, or one per element; slopes."""
    net.activation = "relu"
    shape = net.dims(x)
    for _ in range(2):
        constant = net.pick((1,), shape[-1:], shape[1:], (shape[1], *(1,) * (len(shape) - 2)))
        kind = net.pick("Add", "Mul", "Sub", "PRelu") if len(shape) == 4 else net.pick("Add", "Mul", "Sub")
        if kind == "PRelu":
            constant = (shape[1], 1, 1)
        x = net.op(kind, x, net.positive(*constant))
    return x


def _softmax(net: Drawing, x: str) -> str:
    return net.op("Softmax", x, axis=len(net.dims(x)) - 1)


def _norm(net: Drawing, x: str) -> str:
    return net.norm_last(x)


def _channel_norm(net: Drawing, x: str) -> str:
    return net.transpose(net.norm_last(net.transpose(x, 0, 2, 3, 1)), 0, 3, 1, 2)


def _perceptron(net: Drawing, x: str) -> str:
    return net.op("Add", x, attention.perceptron(net, x))


def _headed(net: Drawing, x: str) -> str:
    """Self-attention of as many heads as people use."""
    _, tokens, width = net.dims(x)
    heads = net.pick(*(count for count in (1, 2, 3, 4, 6, 8) if width % count == 0 and width // count >= 8))
    size = width // heads

    def part(y: str) -> str:
        return net.transpose(net.reshape(net.dense(y, width), 1, tokens, heads, size), 0, 2, 1, 3)

    mixed = attention.attend(net, part(x), part(x), part(x))
    return net.dense(net.reshape(net.transpose(mixed, 0, 2, 1, 3), 1, tokens, width), width)


ATTENTION: Mapping[str, DrawFamily] = MappingProxyType(
    {
        "product": DrawFamily(many_tokens, between_dense(_product)),
        "matmul": DrawFamily(matrices, _matmul),
        "scaled": DrawFamily(small_map_or_tokens, _scaled),
        "softmax": DrawFamily(many_tokens, between_dense(_softmax)),
        "norm": DrawFamily(many_tokens, between_dense(_norm)),
        "channel_norm": DrawFamily(narrow_map, between(_channel_norm)),
        "perceptron": DrawFamily(many_tokens, between_dense(_perceptron)),
        "headed": DrawFamily(many_tokens, between_dense(_headed)),
        "token_block": DrawFamily(many_tokens, one_of(*attention.TOKEN_BLOCKS)),
        "map_attention": DrawFamily(narrow_map, between(one_of(*attention.MAP_ATTENTION))),
    }
)
"""Families of products of matrices, and of what is around them in a transformer, by name."""
