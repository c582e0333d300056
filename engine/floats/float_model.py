"""Forwards of the float stages in ONNX Runtime: source, original_float, optimized_float and calibrated models.

:class:`FloatSession` runs what :func:`engine.floats.fake_quantization.lower_calibration` makes of a model on
any number of samples and fetches any tensor of the graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import RemoveUnusedNodesPass

from engine.errors import InferenceError, ModelError
from engine.floats.batching import computes_samples_apart, mixes_samples, with_symbolic_batch
from engine.floats.chained import ChainedRunner, run_bound
from engine.floats.depthwise import extract_depthwise, widen_windows
from engine.floats.fake_quantization import lower_calibration
from engine.floats.own_arithmetic import has_own_arithmetic
from engine.ir import shape_of, take_initializers_out, to_bytes
from engine.ops.foreign.custom import is_custom

if TYPE_CHECKING:
    import onnxruntime as ort

Array = NDArray[Any]
Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_BATCH = 8
"""Samples per run of ONNX Runtime, as the original's log says ("Calibration using batch 8")."""


class Kernels(StrEnum):
    """Which implementations ONNX Runtime may use: they differ in the order of float sums, thus in the last bits.

    Attributes:
        FAST: everything it has, among others blocked layouts.
        PLAIN: the layout of the graph; reproduces the similarity figures that the original prints to the last digit.
    """

    FAST = "fast"
    PLAIN = "plain"


class FloatSession:
    """Runs a float-stage model in ONNX Runtime on any number of samples.

    A model is made for one sample (or its fixed batch). Where its operators allow it, up to ``max_batch`` samples are
    computed per run; only if that gives the same bits as one sample at a time, which is tried where it is not known.

    Args:
        model: source, original_float, optimized_float or calibrated model; not changed.
        outputs: tensors to fetch, any of the graph; None for the graph's outputs.
        threads: CPU threads; None for all.
        kernels: see :class:`Kernels`.
        max_batch: samples per run.
        samplewise: have the threads take samples of their own: the results are then the same bits for any number of
            threads, as ONNX Runtime orders the sums of a sample by how many threads share it.

    Raises:
        InferenceError: a name in ``outputs`` is not a tensor that a node computes.
    """

    def __init__(
        self,
        model: ir.Model,
        outputs: Sequence[str] | None = None,
        *,
        threads: int | None = None,
        kernels: Kernels = Kernels.FAST,
        max_batch: int = MAX_BATCH,
        samplewise: bool = True,
    ) -> None:
        plain = kernels is Kernels.PLAIN
        if outputs is not None:
            model = model.clone()
            make_outputs(model, outputs)
        model = lower_calibration(model, quantize_linear=True, keep=has_own_arithmetic if plain else None)
        if plain:
            widen_windows(model)
        take_initializers_out(model)
        self.inputs = {str(value.name): shape_of(value) for value in model.graph.inputs}
        self.outputs = {str(value.name): shape_of(value) for value in model.graph.outputs}
        self._types = {str(value.name): numpy_type(value) for value in model.graph.inputs}
        self._kernels = kernels
        workers = threads or os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(workers)
        # The threads of a graph in many parts wait for each other less if they do not share a sample.
        is_chained = plain and (extract_depthwise(model) or any(map(has_own_arithmetic, model.graph)))
        self._samplewise = samplewise or is_chained
        self._threads = 1 if self._samplewise else threads
        self._spare: list[dict[str, NDArray[np.float32]]] = []
        at_once = max(1, max_batch // workers) if self._samplewise else max_batch
        self._session, self.batch = self._open(model, at_once, is_chained)

    def _open(
        self, model: ir.Model, max_batch: int, is_chained: bool
    ) -> tuple[ort.InferenceSession | ChainedRunner, int]:
        """The session and how many samples it computes per run; code of users sees one at a time, as the model says."""
        if is_chained:
            return ChainedRunner(model, self._load), 1
        if any(map(is_custom, model.graph)):
            return ChainedRunner(model, self._load), 1
        if max_batch > 1 and not mixes_samples(model) and all(kind == np.float32 for kind in self._types.values()):
            symbolic = with_symbolic_batch(model)
            if symbolic is not None:
                session = self._load(to_bytes(symbolic))
                if computes_samples_apart(model) or self._is_batch_exact(session):
                    return session, max_batch
        return self._load(to_bytes(model)), 1

    def _load(self, model: bytes) -> ort.InferenceSession:
        from engine.floats.runtime import open_session

        return open_session(model, threads=self._threads, blocked_layouts=self._kernels is Kernels.FAST)

    def _is_batch_exact(self, session: ort.InferenceSession) -> bool:
        """Whether two samples in one run give the bits of two runs; float kernels may sum differently."""
        rng = np.random.default_rng(0)
        feed = {name: rng.standard_normal((2, *shape[1:]), np.float32) for name, shape in self.inputs.items()}
        try:
            together = session.run(None, feed)
        except ModelError:
            return False
        alone = session.run(None, {name: array[1:] for name, array in feed.items()})
        return all(np.array_equal(both[1:], one, equal_nan=True) for both, one in zip(together, alone, strict=True))

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs for ``feed``, which holds any number of samples along the first dimension.

        Raises:
            InferenceError: an input is missing or unknown, or has the wrong shape.
        """
        results = self._each(lambda batch: self._session.run(None, batch), self._batches(feed))
        joined = results[0] if len(results) == 1 else [_joined(parts) for parts in zip(*results, strict=True)]
        return dict(zip(self.outputs, joined, strict=True))

    def run_into(self, feed: Mapping[str, Array], buffers: Mapping[str, NDArray[np.float32]]) -> None:
        """As :meth:`run`, the outputs written into ``buffers``: nothing is allocated.

        Args:
            feed: arrays by input name.
            buffers: C-contiguous float32 arrays by output name, rows for as many samples as ``feed`` holds.
        """
        pieces, first, (name, shape) = [], 0, next(iter(self.inputs.items()))
        for batch in self._batches(feed):
            samples = len(batch[name]) // shape[0]
            rows = {key: slice(first * shape[0], (first + samples) * shape[0]) for key, shape in self.outputs.items()}
            pieces.append((batch, {key: buffers[key][part] for key, part in rows.items()}))
            first += samples
        run = self._session.run_into if isinstance(self._session, ChainedRunner) else partial(run_bound, self._session)
        self._each(lambda piece: run(*piece), pieces)

    def visit(self, feed: Mapping[str, Array], see: Callable[[int, str, NDArray[np.float32]], None]) -> None:
        """As :meth:`run`, but outputs, all float32, are shown as soon as they are there and do not outlast that.

        Args:
            feed: arrays by input name.
            see: called with the number of a sample in ``feed``, the name of an output and its values for that sample
                and maybe those behind it; several threads call it.
        """
        batches = [(index * self.batch, batch) for index, batch in enumerate(self._batches(feed))]
        chained = self._session if isinstance(self._session, ChainedRunner) else None
        if chained is None and (len(batches) == 1 or not self._samplewise):
            for first, batch in batches:
                with self._results(batch) as results:
                    list(self._pool.map(partial(see, first), results, results.values()))
            return

        def show(piece: tuple[int, Mapping[str, Array]]) -> None:
            first, batch = piece
            if chained is not None:
                chained.visit(batch, partial(see, first))
                return
            with self._results(batch) as results:
                for name, values in results.items():
                    see(first, name, values)

        self._each(show, batches)

    @contextmanager
    def _results(self, batch: Mapping[str, Array]) -> Iterator[dict[str, NDArray[np.float32]]]:
        """The outputs of one run of a session, in memory that a later run takes again."""
        try:
            room = self._spare.pop()
        except IndexError:
            room = {
                name: np.empty((self.batch * shape[0], *shape[1:]), np.float32) for name, shape in self.outputs.items()
            }
        name, shape = next(iter(self.inputs.items()))
        count = len(batch[name]) // shape[0]
        parts = {key: array[: count * self.outputs[key][0]] for key, array in room.items()}
        run_bound(self._session, batch, parts)
        yield parts
        self._spare.append(room)

    def _each(self, compute: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """One run after the other; runs of samples that threads do not share at the same time."""
        return list(self._pool.map(compute, items) if self._samplewise else map(compute, items))

    def _batches(self, feed: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
        """The feed in pieces that one run can take."""
        return in_batches(feed, self.inputs, self._types, self.batch)


def runs_in_parts(model: ir.Model, kernels: Kernels) -> bool:
    """Whether :meth:`FloatSession.visit` shows what a part of ``model`` gives before it computes the next one.

    Outputs then need no memory of their own.
    """
    return kernels is Kernels.PLAIN and any(map(has_own_arithmetic, model.graph))


def in_batches(
    feed: Mapping[str, Array],
    shapes: Mapping[str, tuple[int, ...]],
    types: Mapping[str, np.dtype[Any]],
    size: int = 1,
) -> Iterator[dict[str, Array]]:
    """The samples of ``feed``, up to ``size`` at a time, in C order.

    Args:
        feed: arrays by input name, any number of samples along the first dimension.
        shapes: of one sample by input name.
        types: of the inputs.
        size: samples at a time.

    Raises:
        InferenceError: an input is missing or unknown, or has the wrong shape.
    """
    if set(feed) != set(shapes):
        raise InferenceError(f"inputs given: {sorted(feed)}; the model's inputs are {sorted(shapes)}")
    counts = set()
    for name, array in feed.items():
        shape = shapes[name]
        if array.shape == shape == ():  # the same number for all samples would be another model: there is one
            counts.add(1)
            continue
        if array.ndim != len(shape) or array.shape[1:] != shape[1:] or not len(array) or len(array) % shape[0]:
            raise InferenceError(
                f"input {name!r}: the array has shape {array.shape}, the model takes {shape} or a multiple in the "
                "first dimension"
            )
        counts.add(len(array) // shape[0])
    if len(counts) != 1:
        raise InferenceError(f"inputs hold different numbers of samples: {sorted(counts)}")
    (samples,) = counts
    for start in range(0, samples, size):
        stop = min(start + size, samples)
        yield {
            name: np.asarray(
                feed[name][start * shape[0] : stop * shape[0]] if shape else feed[name], types[name], order="C"
            )
            for name, shape in shapes.items()
        }


def _joined(parts: Sequence[Array]) -> Array:
    """One output of several runs, along the first dimension; single numbers become a list."""
    return np.concatenate([np.atleast_1d(part) for part in parts])


def make_outputs(model: ir.Model, names: Sequence[str]) -> None:
    """Make the tensors ``names`` the outputs of ``model`` and drop what they do not need.

    Raises:
        InferenceError: one of them is not computed by a node.
    """
    values = {str(value.name): value for node in model.graph for value in node.outputs}
    unknown = [name for name in names if name not in values]
    if unknown:
        raise InferenceError(f"not computed by any node of the model: {unknown}")
    model.graph.outputs[:] = [values[name] for name in dict.fromkeys(names)]
    RemoveUnusedNodesPass()(model)


def numpy_type(value: ir.Value) -> np.dtype[Any]:
    """The type of arrays for ``value``.

    Raises:
        ModelError: it is not known.
    """
    if value.dtype is None:
        raise ModelError(f"tensor {value.name!r} has no type")
    return value.dtype.numpy()
