"""Where the fast simulator spends its time: seconds, bytes and calls per operator, and what lies outside kernels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.simulate.fast import FastSimulator
from engine.simulate.program import Instruction, Program
from engine.simulate.tensors import random_feed


@dataclass(frozen=True)
class OperatorCost:
    """What the nodes of one operator cost for one sample, on one thread.

    Attributes:
        op_type: the operator.
        instruction: kind of instruction, ``numpy`` for a call of the definition.
        calls: instructions.
        seconds: in all of them, the least of all repetitions.
        bytes: size of their operands and results.
    """

    op_type: str
    instruction: str
    calls: int
    seconds: float
    bytes: int


@dataclass(frozen=True)
class Profile:
    """The costs of one model.

    Attributes:
        costs: per operator and instruction, the most expensive first.
        seconds: of a whole run of one sample on one thread, the least of all repetitions.
        constant_bytes: size of weights, tables and parameters.
    """

    costs: tuple[OperatorCost, ...]
    seconds: float
    constant_bytes: int = 0

    @property
    def outside_kernels(self) -> float:
        """Share of a run that is not spent in instructions or calls of definitions."""
        return max(0.0, 1.0 - sum(cost.seconds for cost in self.costs) / self.seconds)


def profile(model: ir.Model, repetitions: int = 20) -> Profile:
    """Run every instruction of a quantised model by itself, in order, on noise.

    Args:
        model: a quantised graph.
        repetitions: runs; of every time the least counts.
    """
    simulator = FastSimulator(model, threads=1)
    feed = random_feed(simulator.inputs, 1)
    simulator.run(feed)
    whole, single = [], []
    for _ in range(repetitions):
        start = time.thread_time()
        simulator.run(feed)
        whole.append(time.thread_time() - start)
        single.append(simulator.time_steps(feed))
    constants = sum(array.nbytes for array in simulator.program.constants)
    return Profile(_summed(simulator.program, np.min(single, axis=0).tolist()), min(whole), constants)


def _summed(program: Program, seconds: Sequence[float]) -> tuple[OperatorCost, ...]:
    found: dict[tuple[str, str], OperatorCost] = {}
    for step, spent in zip(program.steps, seconds, strict=True):
        kind = step.kind.name.lower() if isinstance(step, Instruction) else "numpy"
        before = found.get((step.owner, kind), OperatorCost(step.owner, kind, 0, 0.0, 0))
        found[step.owner, kind] = OperatorCost(
            step.owner, kind, before.calls + 1, before.seconds + spent, before.bytes + step.bytes
        )
    return tuple(sorted(found.values(), key=lambda cost: -cost.seconds))
