"""Speed of the simulators against float32 ONNX Runtime and other peers on the same network, in turns in one process."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

from engine.errors import ConfigError, ModelError
from engine.floats.batching import with_symbolic_batch
from engine.frontend.shapes import infer_shapes
from engine.ir import load_model, to_bytes
from engine.simulate.fast import FastSimulator, available_cpus
from engine.simulate.float_simulator import standard_model
from engine.simulate.reference import ReferenceSimulator
from engine.simulate.session import is_quantized
from engine.simulate.tensors import TensorInfo, check_feed, describe, graph_inputs, random_feed, split_samples

Array = NDArray[Any]
Contender = Callable[[], object]
_FAST, _FLOAT, _REFERENCE = "simulator", "float", "reference"
LOOK, IDLE, PATIENCE = 0.01, 0.1, 1.0
"""Seconds for which CPU time is watched, the share of them below which no thread works, seconds to wait for that."""
ModelLike = str | os.PathLike[str] | ir.Model


class Peer(Protocol):
    """Another way to run the network, which takes its turns beside float32 ONNX Runtime.

    Attributes:
        name: in the tables.
    """

    @property
    def name(self) -> str: ...

    def run(self, feed: Mapping[str, Array]) -> object:
        """Compute the batch of ``feed``, float arrays by name in the float network's shapes."""


@dataclass(frozen=True)
class BenchOptions:
    """How to measure.

    Attributes:
        batches: samples per call, one row for each.
        threads: CPU threads of every contender; None for all.
        rounds: how often every contender has its turn; the median counts.
        seconds: least duration of a turn of every contender but the reference.
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

    A second is one of CPU time where every contender has one thread, which a busy machine does not change, else one of
    wall time.

    Attributes:
        batch: samples per call.
        threads: of every contender.
        images_per_s: of the fast simulator.
        float_images_per_s: of float32 ONNX Runtime; None where no float model was given.
        reference_images_per_s: of the numpy reference; None where it did not run.
        peer_images_per_s: of the peers, by name.
    """

    batch: int
    threads: int
    images_per_s: float
    float_images_per_s: float | None
    reference_images_per_s: float | None
    peer_images_per_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def ratio_to_float(self) -> float | None:
        """Fast simulator over ONNX Runtime."""
        return None if self.float_images_per_s is None else self.images_per_s / self.float_images_per_s

    @property
    def ratio_to_reference(self) -> float | None:
        """Fast simulator over numpy reference."""
        return None if self.reference_images_per_s is None else self.images_per_s / self.reference_images_per_s

    @property
    def ratio_to_peers(self) -> dict[str, float]:
        """Fast simulator over each peer."""
        return {name: self.images_per_s / rate for name, rate in self.peer_images_per_s.items()}

    def as_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return {
            "batch": self.batch,
            "threads": self.threads,
            "images_per_s": self.images_per_s,
            "float_images_per_s": self.float_images_per_s,
            "ratio_to_float": self.ratio_to_float,
            "reference_images_per_s": self.reference_images_per_s,
            "ratio_to_reference": self.ratio_to_reference,
            "peer_images_per_s": dict(self.peer_images_per_s),
            "ratio_to_peers": self.ratio_to_peers,
        }


def bench(
    quantized: ModelLike,
    float_model: ModelLike | None = None,
    options: BenchOptions | None = None,
    peers: Sequence[Peer] = (),
) -> tuple[BenchRow, ...]:
    """Images per second of the fast simulator, of float32 ONNX Runtime, of peers and of the numpy reference.

    The contenders take turns, so that a busy machine slows all of them alike; where they have several threads, a turn
    begins when those of the last contender sleep. They see the same noise: where the simulator takes pixels, the others
    take the same pixels as floats in the layout of the float network.

    Args:
        quantized: a quantised model.
        float_model: the network that it was made from, any float stage; None to leave ONNX Runtime out.
        options: how to measure.
        peers: others that run ``float_model``.

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
    floats = None if float_model is None else FloatContender(_load(float_model), threads)
    reference = ReferenceSimulator(model) if options.reference else None
    return tuple(_row(batch, threads, fast, floats, reference, peers, options) for batch in options.batches)


class FloatContender:
    """ONNX Runtime on a network of standard operators, with a symbolic batch where the graph allows one.

    Args:
        model: any float stage, or a network with ``QuantizeLinear`` and ``DequantizeLinear`` pairs.
        threads: CPU threads.

    Attributes:
        inputs: of one sample.
        data: the network as it runs, ONNX.
        whole_batch: whether it takes more than one sample at once.
    """

    def __init__(self, model: ir.Model, threads: int) -> None:
        standard = shaped_model(model)
        self.inputs = describe(graph_inputs(standard))
        symbolic = with_symbolic_batch(standard)
        options = ort.SessionOptions()
        options.log_severity_level = 4  # a graph that takes no batches is no reason to print
        options.intra_op_num_threads = threads
        self.data = to_bytes(standard if symbolic is None else symbolic)
        self._session = _session(self.data, options)
        self.whole_batch = symbolic is not None and _takes_batches(self._session, self.inputs)
        if symbolic is not None and not self.whole_batch:
            self.data = to_bytes(standard)
            self._session = _session(self.data, options)

    def run(self, feed: Mapping[str, Array]) -> None:
        """One call for the whole batch, or one per sample where the graph fixes the batch."""
        for part in (feed,) if self.whole_batch else samples(feed, self.inputs):
            self._session.run(None, dict(part))


def shaped_model(model: ir.Model) -> ir.Model:
    """``model`` in standard operators, with the shapes of all tensors, which tell whether it takes batches.

    Raises:
        ModelError: the model is not valid ONNX.
        UnsupportedError: a shape depends on the data.
    """
    standard = standard_model(model)
    if all(value.shape is not None for node in standard.graph for value in node.outputs):
        return standard
    return infer_shapes(standard, Path(model.graph.name or "model"))


def samples(feed: Mapping[str, Array], inputs: Sequence[TensorInfo]) -> Iterator[dict[str, Array]]:
    """The samples of ``feed``, each in the shapes of ``inputs``."""
    for index in range(check_feed(feed, inputs)):
        yield split_samples(feed, inputs, index)


def peer_feed(feed: Mapping[str, Array], inputs: Sequence[TensorInfo], batch: int) -> dict[str, Array]:
    """What a float network with ``inputs`` takes where the simulator takes ``feed``.

    The same values as floats, channels moved in front where the simulator takes NHWC; noise for an input of a name or
    shape that the simulator does not have.
    """
    found = random_feed(inputs, batch)
    for info in inputs:
        values = feed.get(info.name)
        if values is not None and values.ndim == len(info.shape):
            channels_last = values.ndim == 4 and values.shape[1:] != info.shape[1:]
            values = np.moveaxis(values, -1, 1) if channels_last else values
            if values.shape == found[info.name].shape:
                found[info.name] = np.ascontiguousarray(values, info.dtype)
    return found


def _session(data: bytes, options: ort.SessionOptions) -> ort.InferenceSession:
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


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
    floats: FloatContender | None,
    reference: ReferenceSimulator | None,
    peers: Sequence[Peer],
    options: BenchOptions,
) -> BenchRow:
    feed, one = random_feed(fast.inputs, batch), random_feed(fast.inputs, 1)
    clock = time.process_time if threads == 1 else time.perf_counter
    turns: dict[str, Contender] = {_FAST: lambda: fast.run(feed)}
    if floats is not None:
        float_feed = peer_feed(feed, floats.inputs, batch)
        turns[_FLOAT] = partial(floats.run, float_feed)
        turns |= {peer.name: partial(peer.run, float_feed) for peer in peers}
    rates: dict[str, list[float]] = {name: [] for name in (*turns, _REFERENCE)}
    for _ in range(options.rounds):
        for name, call in turns.items():
            if threads > 1:
                wait_for_sleep()
            rates[name].append(batch * _calls_per_second(call, options.seconds, clock))
        if reference is not None:
            rates[_REFERENCE].append(_calls_per_second(lambda: reference.run(one), 0.0, clock, warm=False))
    medians = {name: statistics.median(values) for name, values in rates.items() if values}
    return BenchRow(
        batch,
        threads,
        medians[_FAST],
        medians.get(_FLOAT),
        medians.get(_REFERENCE),
        {peer.name: medians[peer.name] for peer in peers if peer.name in medians},
    )


def wait_for_sleep() -> None:
    """Return when no thread of this process works any more.

    ONNX Runtime's look for work for 40 to 50 ms after a call, and take a core from whoever comes next.
    """
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        start = time.process_time()
        time.sleep(LOOK)
        if time.process_time() - start < IDLE * LOOK:
            return


def _calls_per_second(call: Contender, seconds: float, clock: Callable[[], float], warm: bool = True) -> float:
    """Calls per second over at least ``seconds`` and one call, after a first one that does not count."""
    if warm:
        call()
    calls, start = 0, clock()
    while True:
        call()
        calls += 1
        elapsed = clock() - start
        if elapsed >= seconds and elapsed > 0:
            return calls / elapsed


def _load(model: ModelLike) -> ir.Model:
    return model if isinstance(model, ir.Model) else load_model(model)
