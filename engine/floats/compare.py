"""Similarity of the calibrated model to the optimised one, as the tables of a conversion show it.

Source: reference/calibration.md 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.floats.float_model import FloatSession, Kernels
from engine.ir import before_calibration, is_calibration
from engine.ops.core.unit_conv import UNIT_CONV

Array = NDArray[Any]


EPSILON = 1e-5
"""What the original adds to both parts of a cosine.

Means of LayerNorm in ``swin`` on two marches, of norms 4e-8 to 2e-2: four cosines to five digits (-0.14564 instead of
-0.23164), two of exactly 1; in the published log of YOLOv13n a Softmax whose differences are rounded to zero has 1.
"""


@dataclass(frozen=True)
class Distance:
    """How far a tensor is from what it should be.

    Attributes:
        cosine: cosine similarity (:func:`printed_cosine`).
        l1: mean of ``|e|``.
        l2: ``||e||_2 / n``, n = number of elements, as the original defines it.
        chebyshev: ``max|e|``.
    """

    cosine: float
    l1: float
    l2: float
    chebyshev: float


@dataclass(frozen=True)
class ModelComparison:
    """A calibrated model against the optimised one, on one set of samples.

    Attributes:
        outputs: by name of the graph's output.
        nodes: cosine similarity by name of the node that computes the tensor.
    """

    outputs: Mapping[str, Distance]
    nodes: Mapping[str, float]


def compare(
    optimized: ir.Model, calibrated: ir.Model, feed: Mapping[str, Array], *, threads: int | None = None
) -> ModelComparison:
    """Run both models and compare their outputs, and the result of every node that both hold.

    A node's result is taken behind the ``HzCalibration`` that reads it, where there is one. The original prints these
    figures for the first calibration sample; they are reproduced to the last digit, so the layout of the graph is kept
    (:attr:`Kernels.PLAIN`): in a deep network the order of float sums changes them in the fourth digit.

    Args:
        optimized: the float graph.
        calibrated: the same with ``HzCalibration`` nodes.
        feed: samples by input name, as the models take them.
        threads: CPU threads; None for all.
    """
    names = [str(value.name) for value in optimized.graph.outputs]
    pairs = _counterparts(optimized, calibrated)
    expected = _run(optimized, [*names, *dict.fromkeys(wanted for wanted, _ in pairs.values())], feed, threads)
    actual = _run(calibrated, [*names, *dict.fromkeys(found for _, found in pairs.values())], feed, threads)
    return ModelComparison(
        outputs={name: distance(actual[name], expected[name]) for name in names},
        nodes={node: printed_cosine(actual[found], expected[wanted]) for node, (wanted, found) in pairs.items()},
    )


def _run(model: ir.Model, names: Sequence[str], feed: Mapping[str, Array], threads: int | None) -> dict[str, Array]:
    # One sample per run: whether more could share one need not be tried, for which three are computed.
    return FloatSession(model, names, threads=threads, kernels=Kernels.PLAIN, max_batch=1).run(feed)


def distance(actual: Array, expected: Array) -> Distance:
    """Distances of two arrays of the same shape, computed in float64; NaN where a value is infinite in both."""
    with np.errstate(all="ignore"):
        error = actual.astype(np.float64) - expected.astype(np.float64)
    return distance_of(error, printed_cosine(actual, expected))


def distance_of(error: NDArray[np.float64], cosine: float) -> Distance:
    """Distances of two arrays whose difference is ``error``; NaN where a value is infinite in both."""
    with np.errstate(all="ignore"):
        size = np.abs(error).reshape(-1)
        return Distance(
            cosine=cosine,
            l1=float(size.mean()),
            l2=math.sqrt(_dot(size, size)) / size.size,
            chebyshev=float(size.max()),
        )


def printed_cosine(actual: Array, expected: Array) -> float:
    """``(a . b + EPSILON) / (|a| |b| + EPSILON)``, as the original's tables have it; computed in float64.

    1 where either array is all zero, so it is no score of a result that is lost: see :func:`cosine`.
    """
    product, norms = _product_and_norms(actual, expected)
    return (product + EPSILON) / (norms[0] * norms[1] + EPSILON)


def cosine(actual: Array, expected: Array) -> float:
    """Cosine of the angle between two arrays of the same size, computed in float64.

    1 where both are all zero, 0 where only one is.
    """
    product, norms = _product_and_norms(actual, expected)
    return product / norms[0] / norms[1] if all(norms) else float(not any(norms))


def cosine32(actual: Array, expected: Array) -> float:
    """The same in the type of the arrays, as the original compares: results that differ by less than 1e-7 are equally
    similar in float32. Where that type has no number for it, :func:`cosine`.
    """
    a, b = actual.reshape(-1), expected.reshape(-1)
    with np.errstate(all="ignore"):
        found = float(np.dot(a, b) / (np.sqrt(np.dot(a, a)) * np.sqrt(np.dot(b, b))))
    return found if np.isfinite(found) else cosine(actual, expected)


def cosine_of_sums(actual: Array, expected: Array) -> float:
    """The same with the products added up in pairs, as numpy's sum does, and the norms by BLAS."""
    a, b = actual.reshape(-1), expected.reshape(-1)
    with np.errstate(all="ignore"):
        found = float(np.sum(a * b) / (np.linalg.norm(a) * np.linalg.norm(b)))
    return found if np.isfinite(found) else cosine(actual, expected)


def _product_and_norms(actual: Array, expected: Array) -> tuple[float, tuple[float, float]]:
    a, b = actual.reshape(-1), expected.reshape(-1)
    return _dot(a, b), (math.sqrt(_dot(a, a)), math.sqrt(_dot(b, b)))


def _dot(a: Array, b: Array) -> float:
    """Scalar product in float64, on this thread: BLAS would wake its others for every small tensor."""
    with np.errstate(all="ignore"):  # infinite and undefined values give NaN
        return float(np.einsum("i,i->", a, b, dtype=np.float64))


def _counterparts(optimized: ir.Model, calibrated: ir.Model) -> dict[str, tuple[str, str]]:
    """The tensors to compare by name of the node: that of ``optimized``, and that of ``calibrated``.

    A convolution of weight 1 in front of a sum, which only ``calibrated`` has, is compared with what it reads: so are
    the printed figures of all 94 on bernoulli2.
    """
    values = {str(value.name): value for node in calibrated.graph for value in node.outputs}
    computed = {
        str(value.name): str(node.name or "")
        for node in optimized.graph
        for value in node.outputs[:1]
        if str(value.name) in values and value.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE)
    }
    found = {}
    for tensor, node in computed.items():
        readers = [user for user in values[tensor].consumers() if is_calibration(user) and _is_read(user)]
        found[node] = (tensor, str(readers[0].outputs[0].name) if readers else tensor)
    given = {str(value.name) for node in optimized.graph for value in node.outputs}
    for each in calibrated.graph:
        name, source = str(each.name), each.inputs[0] if each.inputs else None
        if name.startswith(UNIT_CONV) and name not in found and source is not None:
            tensor = str(before_calibration(source).name)
            found |= {name: (tensor, str(each.outputs[0].name))} if tensor in given else {}
    return found


def _is_read(node: ir.Node) -> bool:
    """Whether anything takes the output of ``node``: what nothing takes is not computed."""
    return bool(node.outputs[0].uses()) or node.outputs[0].is_graph_output()
