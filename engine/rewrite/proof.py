"""Two float networks on the same inputs in ONNX Runtime: how far their outputs are apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as state

from engine.errors import UnsupportedError
from engine.ir import shape_of, to_bytes

Array = NDArray[Any]
Feed = Mapping[str, Array]

_FAILURES = (state.Fail, state.InvalidArgument, state.InvalidGraph, state.RuntimeException, state.NotImplemented)
"""What ONNX Runtime raises for a network that it cannot run."""

RANDOM_SAMPLES = 3
TOLERANCE = 1e-4
"""Largest difference of two outputs that are equal, as a share of the largest magnitude of that output: sums in another
order round differently, 6e-8 per sum."""


@dataclass(frozen=True)
class OutputComparison:
    """How far the outputs of two networks are apart.

    Attributes:
        random, given: samples of random numbers, and of the user's.
        largest: largest difference of any element.
        relative: largest difference as a share of the largest magnitude of its output.
    """

    random: int
    given: int
    largest: float
    relative: float

    @property
    def equal(self) -> bool:
        """Whether they differ by rounding only; NaN is no rounding."""
        return self.relative <= TOLERANCE

    @property
    def words(self) -> str:
        """For the user."""
        data = f" and {self.given} given" if self.given else ""
        return (
            f"largest difference {self.largest:.2g} ({self.relative:.1g} of the largest value) on {self.random} "
            f"random{data} samples"
        )


@dataclass(frozen=True)
class ExactOutputs:
    """A network's outputs on the inputs that rewritten ones are compared on.

    Attributes:
        names: of the outputs.
        feeds: of the samples, random ones first.
        random: number of random samples.
        outputs: per sample, in the order of ``names``.
    """

    names: tuple[str, ...]
    feeds: tuple[Feed, ...]
    random: int
    outputs: tuple[Sequence[Array], ...]

    @classmethod
    def of(cls, model: ir.Model, given: Sequence[Feed] = ()) -> ExactOutputs:
        """Run ``model`` on random numbers, seed 0, and on ``given`` samples.

        Raises:
            UnsupportedError: ONNX Runtime cannot run it.
        """
        rng = np.random.default_rng(0)
        feeds = (*(random_inputs(model, rng) for _ in range(RANDOM_SAMPLES)), *given)
        network = FloatNetwork(model)
        outputs = tuple(network.run(feed) for feed in feeds)
        return cls(tuple(str(value.name) for value in model.graph.outputs), feeds, RANDOM_SAMPLES, outputs)

    def compared(self, results: Sequence[Sequence[Array]]) -> OutputComparison:
        """How far ``results``, per sample in the order of :attr:`names`, are from :attr:`outputs`."""
        largest = relative = 0.0
        for exact, found in zip(self.outputs, results, strict=True):
            for first, second in zip(exact, found, strict=True):
                if first.shape != second.shape:
                    return OutputComparison(self.random, len(self.feeds) - self.random, float("inf"), float("inf"))
                apart, share = _apart(first, second)
                largest, relative = max(largest, apart), max(relative, share)
        return OutputComparison(self.random, len(self.feeds) - self.random, largest, relative)

    def compare(self, model: ir.Model) -> OutputComparison:
        """How far the outputs of ``model``, which has the same, are away.

        Raises:
            UnsupportedError: ONNX Runtime cannot run it.
        """
        network = FloatNetwork(model)
        return self.compared([network.run(feed) for feed in self.feeds])


def _apart(first: Array, second: Array) -> tuple[float, float]:
    """Largest difference, and its share of the largest magnitude; infinite where only one is finite."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.all(np.isfinite(b[finite])):
        return float("inf"), float("inf")
    if not finite.any():
        return 0.0, 0.0
    apart = float(np.max(np.abs(a[finite] - b[finite])))
    largest = float(np.max(np.abs(a[finite])))
    return apart, apart / largest if largest else apart


def random_inputs(model: ir.Model, rng: np.random.Generator) -> dict[str, Array]:
    """Normal random numbers for every input; integers are 0, for they may be indices."""
    feed = {}
    for value in model.graph.inputs:
        shape, dtype = shape_of(value), (value.dtype or ir.DataType.FLOAT).numpy()
        numbers = rng.normal(size=shape) if np.issubdtype(dtype, np.floating) else np.zeros(shape)
        feed[str(value.name)] = numbers.astype(dtype)
    return feed


class FloatNetwork:
    """A float network in ONNX Runtime, on the CPU, as it is written.

    Raises:
        UnsupportedError: ONNX Runtime cannot load it.
    """

    def __init__(self, model: ir.Model) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(to_bytes(model), options, providers=["CPUExecutionProvider"])
        except _FAILURES as error:
            raise UnsupportedError(f"ONNX Runtime cannot load the network: {_first_line(error)}") from error
        self._inputs = {value.name for value in self._session.get_inputs()}

    def run(self, feed: Feed) -> list[Array]:
        """Outputs on ``feed``; what the network does not take is left out.

        Raises:
            UnsupportedError: ONNX Runtime cannot run it.
        """
        wanted = {name: array for name, array in feed.items() if name in self._inputs}
        try:
            return list(self._session.run(None, wanted))
        except _FAILURES as error:
            raise UnsupportedError(f"ONNX Runtime cannot run the network: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
