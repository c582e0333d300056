"""Does a ``.bin`` file compute what the quantised model does? Values of the same tensor, side by side.

Nodes may have been removed from the ends of the ``.bin`` file (:mod:`engine.compile.removal`): its inputs and outputs
are then tensors inside the quantised model, and it is those that are fed and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import ConfigError
from engine.ir import FileNames, shape_of
from engine.simulate import Session
from engine.simulate.tensors import graph_inputs

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Mismatches:
    """Counters of a strict check.

    Attributes:
        miss: values that one side lacks.
        diff: values that differ.
        nan: values that are no number on one side.
        total: values compared.
    """

    miss: int = 0
    diff: int = 0
    nan: int = 0
    total: int = 0

    def __add__(self, other: Mismatches) -> Mismatches:
        return Mismatches(
            self.miss + other.miss, self.diff + other.diff, self.nan + other.nan, self.total + other.total
        )

    @property
    def lines(self) -> int:
        """All mismatches."""
        return self.miss + self.diff + self.nan


@dataclass(frozen=True)
class ComparedTensor:
    """One tensor of both models.

    Attributes:
        name: in the quantised model.
        quantized: what the quantised model gives; ``None`` where only the ``.bin`` file has the tensor.
        compiled: what the ``.bin`` file gives; ``None`` where only the quantised model has the tensor.
    """

    name: str
    quantized: NDArray[Any] | None
    compiled: NDArray[Any] | None

    def mismatches(self, digits: int) -> Mismatches:
        """Values that differ in their first ``digits`` decimal places."""
        if self.quantized is None or self.compiled is None:
            there = self.compiled if self.quantized is None else self.quantized
            size = 0 if there is None else there.size
            return Mismatches(miss=size, total=size)
        return count_mismatches(self.quantized, self.compiled, digits)


def verify(
    quantized: ir.Model, compiled: ir.Model, read: Callable[[Session, int], Arrays], every_node: bool = False
) -> Iterator[ComparedTensor]:
    """Run both models on the same data and give every output of the ``.bin`` file beside the tensor that it is.

    Args:
        quantized: the quantised model.
        compiled: the model in the ``.bin`` file; it may take several samples at once.
        read: the inputs of a session, in as many copies as its second argument says.
        every_node: give all tensors that nodes of both models compute, in the order of the quantised model.

    Raises:
        ConfigError: an input of ``compiled`` is no tensor of ``quantized``.
    """
    known = _tensors(quantized)
    fed = {str(value.name): value for value in graph_inputs(compiled)}
    missing = [name for name in fed if name not in known]
    if missing:
        raise ConfigError(f"the models have different inputs: {', '.join(missing)} is in the .bin file only")
    pairs = _shared(quantized, compiled) if every_node else _outputs(quantized, compiled, known)
    own = {str(value.name) for value in graph_inputs(quantized)}
    asked = dict.fromkeys([*(name for name, _ in pairs if name is not None), *fed])
    first = Session(_with_outputs(quantized, [name for name in asked if name not in own]))
    second = Session(_with_outputs(compiled, [name for _, name in pairs if name is not None]))
    batch = max((_rows(value) // _rows(known[name]) for name, value in fed.items()), default=1)
    feed = read(first, max(1, batch))
    values = {**feed, **first.run(feed)}
    results = second.run({name: values[name] for name in fed})
    for one, other in pairs:
        yield ComparedTensor(
            str(one or other), None if one is None else values[one], None if other is None else results[other]
        )


def count_mismatches(first: NDArray[Any], second: NDArray[Any], digits: int) -> Mismatches:
    """Compare two tensors value by value, to ``digits`` decimal places."""
    a, b = (np.asarray(array, np.float64).reshape(-1) for array in (first, second))
    common = min(a.size, b.size)
    a, b = a[:common], b[:common]
    nan = np.isnan(a) != np.isnan(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        far = ~same & ~nan & ~(np.abs(a - b) < 0.5 * 10.0**-digits)
    total = max(first.size, second.size)
    return Mismatches(miss=total - common, diff=int(far.sum()), nan=int(nan.sum()), total=total)


def save(tensor: ComparedTensor, folder: Path, names: FileNames) -> None:
    """Write both sides of ``tensor`` as ``quanti/NAME.npy`` and ``x86/NAME.npy`` under ``folder``.

    Args:
        tensor: one of several.
        folder: of all of them.
        names: of all of them.
    """
    for side, array in (("quanti", tensor.quantized), ("x86", tensor.compiled)):
        if array is not None:
            path = folder / side / f"{names[tensor.name]}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, array)


def _shared(quantized: ir.Model, compiled: ir.Model) -> list[tuple[str | None, str | None]]:
    """Tensors that nodes of both models compute, in the order of the quantised model."""
    other = {str(value.name) for node in compiled.graph for value in node.outputs}
    names = (str(value.name) for node in quantized.graph for value in node.outputs)
    return [(name, name) for name in names if name in other]


def _outputs(
    quantized: ir.Model, compiled: ir.Model, known: Mapping[str, ir.Value]
) -> list[tuple[str | None, str | None]]:
    """Outputs of the ``.bin`` file beside the tensors of the same name, then outputs that it does not have."""
    names = [str(value.name) for value in compiled.graph.outputs]
    pairs: list[tuple[str | None, str | None]] = [(name if name in known else None, name) for name in names]
    behind = _ends_behind([known[name] for name in names if name in known])
    ends = [str(value.name) for value in quantized.graph.outputs]
    return pairs + [(name, None) for name in ends if name not in behind]


def _ends_behind(values: Sequence[ir.Value]) -> set[str]:
    """Outputs that are among ``values``, or follow from one of them through nodes that read nothing else."""
    found, left = set(), list(values)
    while left:
        value = left.pop()
        if value.is_graph_output():
            found.add(str(value.name))
        for node in value.consumers():
            if sum(each is not None and each.const_value is None for each in node.inputs) == 1:
                left += node.outputs
    return found


def _tensors(model: ir.Model) -> dict[str, ir.Value]:
    """Inputs of ``model`` and what its nodes compute, by name."""
    values = [*graph_inputs(model), *(value for node in model.graph for value in node.outputs)]
    return {str(value.name): value for value in values}


def _with_outputs(model: ir.Model, names: Sequence[str]) -> ir.Model:
    """A copy of ``model`` with the named tensors as outputs."""
    copy = model.clone()
    values = _tensors(copy)
    copy.graph.outputs[:] = [values[name] for name in names]
    return copy


def _rows(value: ir.Value) -> int:
    """First dimension of a tensor."""
    return next(iter(shape_of(value)), 1)
