"""What no trial could convert is refused before any image is scored: quantised files, and what the engine refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.chips import March
from engine.errors import ModelError, UnsupportedError

if TYPE_CHECKING:
    import onnx

_PAIR = ("QuantizeLinear", "DequantizeLinear")
_INTEGER = ("QLinear", "DynamicQuantize", "ConvInteger", "MatMulInteger", "MatMulNBits", "QGemm", "QAttention")
"""Beginnings of the names of operators that compute with integers, ONNX's and ONNX Runtime's."""


def read_float_model(path: Path) -> onnx.ModelProto:
    """The file without weights that lie outside it.

    Raises:
        ModelError: it is no ONNX model.
        UnsupportedError: it is quantised already: it has operators on integers, or pairs of ``QuantizeLinear`` and
            ``DequantizeLinear``.
    """
    from engine.ir import read_proto

    model = read_proto(path)
    if not model.graph.node:
        raise ModelError(f"{path}: cannot be read as an ONNX model: it has no nodes")
    _refuse_quantized(model, path)
    return model


def _refuse_quantized(model: onnx.ModelProto, path: Path) -> None:
    counts = Counter(node.op_type for node in _nodes(model.graph))
    integer = {name: count for name, count in counts.items() if name.startswith(_INTEGER)}
    if integer:
        found = ", ".join(
            f"{count} {name}" for name, count in sorted(integer.items(), key=lambda each: -each[1])[:_NAMED]
        )
        how = "dynamically " if any(name.startswith("DynamicQuantize") for name in integer) else ""
        raise UnsupportedError(
            f"{path}: is {how}quantised already ({found}); a sweep quantises a float model: give the one that this was "
            "made from"
        )
    if all(counts[name] for name in _PAIR):
        raise UnsupportedError(
            f"{path}: is quantised already ({counts[_PAIR[0]]} {_PAIR[0]}, {counts[_PAIR[1]]} {_PAIR[1]}); a sweep "
            "calibrates a float model: give the one that this was made from, or convert this one with hb_mapper "
            "makertbin and calibration_type: load, which takes its scales"
        )


_NAMED = 3


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Nodes of ``graph`` and of the graphs in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)


def refuse_unconvertible(path: Path, shapes: Mapping[str, Sequence[int]], march: March) -> None:
    """Refuse a model that the engine cannot convert: read and optimise it as every trial does, without data.

    Args:
        path: ONNX file.
        shapes: of its inputs by name, for one sample.
        march: that it is for.

    Raises:
        PtqlabError: as :func:`engine.frontend.load_network`, or the board's runtime lacks an operator.
    """
    from engine.convert import refuse_cpu_operators
    from engine.frontend import load_network
    from engine.optimize import optimize

    model = load_network(path, {name: tuple(shape) for name, shape in shapes.items()})
    try:
        refuse_cpu_operators(optimize(model, march))
    except UnsupportedError as error:
        raise UnsupportedError(
            f"{path}: {error}; export the network without what needs them, and compute that in the application"
        ) from error
