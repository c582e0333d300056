"""Speed of the simulators against float32 ONNX Runtime on the same network, measured in turns in one process."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

from engine.calibrate.forward.batching import with_symbolic_batch
from engine.errors import ConfigError, ModelError
from engine.ir import load_model, to_bytes
from engine.simulate.fast import FastSimulator, available_cpus
from engine.simulate.floats import standard_model
from engine.simulate.reference import ReferenceSimulator
from engine.simulate.session import is_quantized
from engine.simulate.tensors import TensorInfo, describe, graph_inputs, random_feed

Array = NDArray[Any]
Contender = Callable[[], object]
ModelLike = str | os.PathLike[str] | ir.Model


@dataclass(frozen=True)
class BenchOptions:
    """How to measure.

    Attributes:
        batches: samples per call, one row for each.
        threads: CPU threads of the fast simulator and of ONNX Runtime; None for all.
        rounds: how often every contender has its turn; the median counts.
        seconds: least duration of a turn of the fast simulator and of ONNX Runtime.
        reference: whether to run the numpy reference as well, one sample per round.
    """

    batches: tuple[int, ...] = (1, 8)
    threads: int | None = None
    rounds: int = 5
    seconds: float = 0.3
    reference: bool = True


@dataclass(frozen=True)
class BenchRow:
    """Speed at one batch size, in images per second, medians over the rounds.

    Attributes:
        batch: samples per call.
        threads: of the fast simulator and of ONNX Runtime.
        images_per_s: of the fast simulator.
        float_images_per_s: of float32 ONNX Runtime; None where no float model was given.
        reference_images_per_s: of the numpy reference; None where it did not run.
    """

    batch: int
    threads: int
    images_per_s: float
    float_images_per_s: float | None
    reference_images_per_s: float | None

    @property
    def ratio_to_float(self) -> float | None:
        """Fast simulator over ONNX Runtime."""
        return None if self.float_images_per_s is None else self.images_per_s / self.float_images_per_s

    @property
    def ratio_to_reference(self) -> float | None:
        """Fast simulator over numpy reference."""
        return None if self.reference_images_per_s is None else self.images_per_s / self.reference_images_per_s

    def as_dict(self) -> dict[str, float | int | None]:
        """All figures, for JSON."""
        return {
            "batch": self.batch,
            "threads": self.threads,
            "images_per_s": self.images_per_s,
            "float_images_per_s": self.float_images_per_s,
            "ratio_to_float": self.ratio_to_float,
            "reference_images_per_s": self.reference_images_per_s,
            "ratio_to_reference": self.ratio_to_reference,
        }


def bench(
    quantized: ModelLike, float_model: ModelLike | None = None, options: BenchOptions | None = None
) -> tuple[BenchRow, ...]:
    """Images per second of the fast simulator, of float32 ONNX Runtime and of the numpy reference.

    The contenders take turns, so that a busy machine slows all of them alike.

    Args:
        quantized: a quantised model.
        float_model: the network that it was made from, any float stage; None to leave ONNX Runtime out.
        options: how to measure.

    Raises:
        ConfigError: an option is out of range.
        ModelError: a file is not a model, or ``quantized`` holds no quantised operators.
    """
    options = options or BenchOptions()
    if min(options.batches, default=0) < 1 or options.rounds < 1 or options.seconds < 0:
        raise ConfigError(f"bench: batches and rounds must be 1 or more, seconds 0 or more; got {options}")
    model = _load(quantized)
    if not is_quantized(model):
        raise ModelError("bench: the first model holds no quantised operators")
    threads = options.threads or available_cpus()
    fast = FastSimulator(model, threads)
    floats = None if float_model is None else _FloatContender(_load(float_model), threads)
    reference = ReferenceSimulator(model) if options.reference else None
    return tuple(_row(batch, threads, fast, floats, reference, options) for batch in options.batches)


class _FloatContender:
    """Plain float32 ONNX Runtime, with a symbolic batch where the graph allows one."""

    def __init__(self, model: ir.Model, threads: int) -> None:
        standard = standard_model(model)
        self.inputs = describe(graph_inputs(standard))
        symbolic = with_symbolic_batch(standard)
        options = ort.SessionOptions()
        options.log_severity_level = 4  # a graph that takes no batches is no reason to print
        options.intra_op_num_threads = threads
        self._session = _session(standard if symbolic is None else symbolic, options)
        self._whole_batch = symbolic is not None and _takes_batches(self._session, self.inputs)
        if symbolic is not None and not self._whole_batch:
            self._session = _session(standard, options)

    def run(self, feed: Mapping[str, Array], batch: int) -> None:
        """One call for the whole batch, or one per sample where the graph fixes the batch."""
        if self._whole_batch:
            self._session.run(None, dict(feed))
            return
        for sample in range(batch):
            rows = {info.name: info.shape[0] if info.shape else 1 for info in self.inputs}
            self._session.run(None, {k: x[sample * rows[k] : (sample + 1) * rows[k]] for k, x in feed.items()})


def _session(model: ir.Model, options: ort.SessionOptions) -> ort.InferenceSession:
    return ort.InferenceSession(to_bytes(model), options, providers=["CPUExecutionProvider"])


def _takes_batches(session: ort.InferenceSession, inputs: Sequence[TensorInfo]) -> bool:
    """Whether a graph with a symbolic batch runs on two samples: a constant in it may have a batch of its own."""
    try:
        session.run(None, random_feed(inputs, 2))
    except (Fail, InvalidArgument, RuntimeException):
        return False
    return True


def _row(
    batch: int,
    threads: int,
    fast: FastSimulator,
    floats: _FloatContender | None,
    reference: ReferenceSimulator | None,
    options: BenchOptions,
) -> BenchRow:
    feed, one = random_feed(fast.inputs, batch), random_feed(fast.inputs, 1)
    float_feed = {} if floats is None else random_feed(floats.inputs, batch)
    rates: dict[str, list[float]] = {"fast": [], "float": [], "reference": []}
    for _ in range(options.rounds):
        rates["fast"].append(batch * _calls_per_second(lambda: fast.run(feed), options.seconds))
        if floats is not None:
            rates["float"].append(batch * _calls_per_second(lambda: floats.run(float_feed, batch), options.seconds))
        if reference is not None:
            rates["reference"].append(_calls_per_second(lambda: reference.run(one), 0.0, warm=False))
    return BenchRow(
        batch, threads, statistics.median(rates["fast"]), _median(rates["float"]), _median(rates["reference"])
    )


def _calls_per_second(call: Contender, seconds: float, warm: bool = True) -> float:
    """Calls per second over at least ``seconds`` and one call, after a first one that does not count."""
    if warm:
        call()
    calls, start = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return calls / elapsed


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _load(model: ModelLike) -> ir.Model:
    return model if isinstance(model, ir.Model) else load_model(model)
