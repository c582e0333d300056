"""How the original's ``bias_correction`` takes one convolution after the other, in an order that it leaves to chance.

The order is that of memory addresses: a chain of eight convolutions has another one after a variable more in the
environment (docs/evidence/calibration.md). What a convolution loses when its turn comes follows from the order exactly.
So the order can be given, and read from what the original corrected (:func:`order_behind`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.methods.thresholds import names_before_calibration
from engine.errors import ConfigError
from engine.floats.border_columns import with_border_columns
from engine.floats.compare import cosine, cosine32
from engine.floats.float_model import FloatSession, Kernels
from engine.ir import constant_of, shape_of

Vector = NDArray[np.float64]
Biases = Mapping[str, NDArray[np.float32]]
"""Of shape (output channels,), by name of the convolution."""
Results = Mapping[str, NDArray[np.float32]]
"""By name of the tensor."""
_Similarity = Callable[[NDArray[np.float32], NDArray[np.float32]], float]

SAME = 1e-3
"""Largest difference of two equal corrections, relative to the largest number of one.

Recorded ones are explained to 1e-6, or to 2e-4 where a value is rounded otherwise; a wrong state explains few to 1e-2.
"""
_ROUNDED = 1e-6
"""What uncorrected biases may differ by, relative to the largest."""
TIE = 2e-7
"""Cosines that differ by less may be another's turn in float32, of which the original has bits that are not all known:
of 189 independent convolutions, most of them such ties, 182 were kept or dropped as here."""
_RUNS = 1000
"""Inferences that a search for an order may take."""
_TRIED = 8
"""Orders that are tried where no bias was corrected, besides ours and the graph's."""


class Turns:
    """The turns of the convolutions of one calibrated model, on one sample.

    Averages count padding on the right of a map here as in calibration, in float and quantised (rule
    ``method.border-columns``).

    Args:
        optimized: the float graph.
        calibrated: the same with thresholds, before results are requantised; not changed.
        feed: the sample, by name of the input.
        threads: CPU threads; None for all.
    """

    def __init__(
        self,
        optimized: ir.Model,
        calibrated: ir.Model,
        feed: Mapping[str, NDArray[np.float32]],
        *,
        threads: int | None = None,
    ) -> None:
        nodes = convolutions(calibrated)
        self._results = {name: str(node.outputs[0].name) for name, node in nodes.items()}
        renamed = names_before_calibration(calibrated)  # calibrated outputs of the graph have other names in float
        outputs = [str(value.name) for value in calibrated.graph.outputs]
        fetched = list(dict.fromkeys([*self._results.values(), *outputs]))
        names = {name: renamed.get(name, name) for name in fetched}
        plain = FloatSession(
            with_border_columns(optimized), list(names.values()), threads=threads, kernels=Kernels.PLAIN
        )
        found = plain.run(feed)
        self._feed, self._outputs = feed, outputs
        self._wanted = {name: found[names[name]] for name in fetched}
        adjustable, own = _with_biases_as_inputs(with_border_columns(calibrated))
        self.biases: Biases = own
        self._session = FloatSession(adjustable, fetched, threads=threads, kernels=Kernels.PLAIN, max_batch=1)

    def taken(self, order: Sequence[str] = (), kept: Collection[str] | None = None) -> dict[str, NDArray[np.float32]]:
        """What each convolution loses of its bias, of shape (output channels,); empty where all stay as they were.

        Args:
            order: names of those that come first (:func:`in_full`).
            kept: names of those whose correction is kept where results are as similar with it as without
                (:data:`TIE`); None: float32 decides.

        Raises:
            ConfigError: ``order`` names what is no convolution.
        """
        biases, corrections = dict(self.biases), dict[str, NDArray[np.float32]]()
        uncorrected = found = self.run(biases)
        for name in in_full(order, self._results):
            if (new := self.tried(biases, found, name, kept)) is not None:
                corrections[name], biases[name], found = new
        return (
            corrections
            if self._is_better(found, uncorrected, self._outputs, None if kept is None else bool(kept))
            else {}
        )

    def tried(
        self, biases: Biases, found: Results, name: str, kept: Collection[str] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], Results] | None:
        """What convolution ``name`` loses, its new bias and the results with it; None where they are not better.

        Args:
            biases: of all.
            found: results with these.
            name: of one of them.
            kept: see :meth:`taken`.
        """
        error = self.error(found, name)
        bias = np.asarray(biases[name] - error, np.float32)
        then = self.run({**biases, name: bias})
        decided = None if kept is None else name in kept
        return (error, bias, then) if self._is_better(then, found, [self._results[name]], decided) else None

    def run(self, biases: Biases) -> Results:
        """Results of convolutions and outputs of the calibrated model with ``biases``, by name of the tensor."""
        return self._session.run({**self._feed, **{_bias_input(name): bias for name, bias in biases.items()}})

    def error(self, found: Results, name: str) -> NDArray[np.float32]:
        """Mean of what the result of convolution ``name`` is off in ``found``, per channel.

        In float32: so 952 of 952 numbers of the original have its bits, and 922 with a mean in float64.
        """
        result = self._results[name]
        error = found[result] - self._wanted[result]
        means: NDArray[np.float32] = error.mean(axis=_but_channels(error), dtype=np.float32)
        return means

    def _is_better(self, new: Results, old: Results, tensors: Sequence[str], of_ties: bool | None) -> bool:
        """Whether ``tensors`` are more similar to the float ones in ``new``; ``of_ties`` where they are as similar."""
        if of_ties is not None and abs(self._gain(new, old, tensors, cosine)) < TIE * len(tensors):
            return of_ties
        return self._gain(new, old, tensors, cosine32) > 0

    def _gain(self, new: Results, old: Results, tensors: Sequence[str], similarity: _Similarity) -> float:
        after, before = (
            sum(float(similarity(each[name], self._wanted[name])) for name in tensors) for each in (new, old)
        )
        return after - before


def in_full(order: Sequence[str], names: Mapping[str, object]) -> list[str]:
    """All ``names`` of convolutions, first those of ``order``, then the others from the outputs to the inputs.

    With that most of the networks are left alone that the original leaves alone.

    Args:
        order: some of ``names``.
        names: in the graph's order.

    Raises:
        ConfigError: ``order`` names others.
    """
    if unknown := [name for name in order if name not in names]:
        raise ConfigError(f"bias_correction_order: no convolution whose bias is corrected has the name {unknown[0]!r}")
    return list(dict.fromkeys([*order, *reversed(list(names))]))


def taken_behind(turns: Turns, corrected: Biases) -> dict[str, NDArray[np.float32]]:
    """What each convolution loses in the order, and with the ties, behind the biases ``corrected``.

    Args:
        turns: of the convolutions.
        corrected: see :func:`order_behind`.
    """
    return turns.taken(order_behind(turns, corrected), _changed(turns, corrected))


def order_behind(turns: Turns, corrected: Biases) -> tuple[str, ...]:
    """The order in which convolutions were taken that end with the biases ``corrected``; as far as it is found.

    Each correction is the error of one state, so that the next convolution is one whose bias is what it would be now.
    Those that stayed as they were come where their correction makes their result no more similar. Where nothing was
    corrected, an order with which nothing is.

    Args:
        turns: of the convolutions.
        corrected: biases afterwards; what is missing has none.
    """
    wanted = _changed(turns, corrected)
    if not wanted:
        return next((order for order in _some_orders(list(turns.biases)) if not turns.taken(order, wanted)), ())
    return _with_dropped(turns, _Search(turns, wanted).found(), wanted)


def _changed(turns: Turns, corrected: Biases) -> Biases:
    shown = {name: corrected.get(name, bias) for name, bias in turns.biases.items()}
    return {name: shown[name] for name, bias in turns.biases.items() if _is_another(shown[name], bias)}


def _is_another(bias: NDArray[np.float32], uncorrected: NDArray[np.float32]) -> bool:
    """Whether one was corrected: other spellings of a network round biases otherwise in their last bits."""
    if bias.shape != uncorrected.shape:
        return False
    return bool(np.abs(bias - uncorrected).max() > _ROUNDED * np.abs(uncorrected).max())


class _Search:
    """The search of :func:`order_behind`, depth first.

    Of several that may be next it tries the one nearest the outputs: one further up would change what these have seen.
    """

    def __init__(self, turns: Turns, corrected: Biases) -> None:
        self._turns, self._corrected, self._runs = turns, corrected, 0
        self._longest: tuple[str, ...] = ()

    def found(self) -> tuple[str, ...]:
        """The order, or the longest one that was begun."""
        self._end(())
        return self._longest

    def _end(self, taken: tuple[str, ...]) -> bool:
        if len(taken) > len(self._longest):
            self._longest = taken
        if len(taken) == len(self._corrected):
            return True
        self._runs += 1
        if self._runs > _RUNS:
            return False
        found = self._turns.run({**self._turns.biases, **{name: self._corrected[name] for name in taken}})
        left = [name for name in reversed(list(self._turns.biases)) if name in self._corrected and name not in taken]
        return any(self._end((*taken, name)) for name in left if self._is_next(found, name))

    def _is_next(self, found: Results, name: str) -> bool:
        error = self._turns.error(found, name)
        loss = self._turns.biases[name].astype(np.float64) - self._corrected[name]
        return bool(np.abs(error - loss).max() <= SAME * np.abs(loss).max())


def _with_dropped(turns: Turns, order: tuple[str, ...], corrected: Biases) -> tuple[str, ...]:
    """``order`` with each of the others in front of the first one where it is dropped; what never is stays out."""
    left = [name for name in turns.biases if name not in corrected]
    full: list[str] = []
    biases = dict(turns.biases)
    for name in (*order, None):
        found = turns.run(biases)
        dropped = [other for other in left if turns.tried(biases, found, other, corrected) is None]
        left = [other for other in left if other not in dropped]
        full += dropped
        if name is not None:
            full.append(name)
            biases[name] = corrected[name]
    return tuple(full)


def _some_orders(names: list[str]) -> Iterator[tuple[str, ...]]:
    yield tuple(reversed(names))
    yield tuple(names)
    drawn = random.Random(0)
    for _ in range(_TRIED):
        yield tuple(drawn.sample(names, len(names)))


def convolutions(model: ir.Model) -> dict[str, ir.Node]:
    """Convolutions whose bias is constant or missing, wherever they run, by name, in graph order."""
    return {str(node.name): node for node in model.graph if _is_correctable(node)}


def _is_correctable(node: ir.Node) -> bool:
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    return node.op_type in ("Conv", "ConvTranspose") and (bias is None or constant_of(bias) is not None)


def bias_of(node: ir.Node) -> NDArray[np.float32] | None:
    """The constant bias of a convolution, of shape (output channels,); None where it has none."""
    return constant_of(node.inputs[2]) if len(node.inputs) > 2 else None


def biases_of(model: ir.Model) -> Biases:
    """The constant biases of the convolutions that have one."""
    found = {name: bias_of(node) for name, node in convolutions(model).items()}
    return {name: bias for name, bias in found.items() if bias is not None}


def mean_per_channel(error: NDArray[np.float32]) -> Vector:
    """Mean over samples and positions, of shape (channels,), in the unit of ``error`` (samples, channels, ...)."""
    means: Vector = error.astype(np.float64).mean(axis=_but_channels(error))
    return means


def _but_channels(array: NDArray[np.float32]) -> tuple[int, ...]:
    return tuple(axis for axis in range(array.ndim) if axis != 1)


def _with_biases_as_inputs(model: ir.Model) -> tuple[ir.Model, dict[str, NDArray[np.float32]]]:
    """A copy whose convolutions read their biases from inputs, and what these are, by name of the convolution."""
    model = model.clone()
    biases: dict[str, NDArray[np.float32]] = {}
    for name, node in convolutions(model).items():
        found, channels = bias_of(node), shape_of(node.outputs[0])[1]
        biases[name] = np.zeros(channels, np.float32) if found is None else found
        value = ir.val(_bias_input(name), ir.DataType.FLOAT, (channels,))
        node.resize_inputs(3)
        node.replace_input_with(2, value)
        model.graph.inputs.append(value)
    return model, biases


def _bias_input(convolution: str) -> str:
    return f"{convolution}/bias"
