"""A container beside its quantised model: counters of a strict check, what stands beside what."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.debug.analysis.verify import ComparedTensor, Mismatches, count_mismatches, save, verify
from engine.errors import ConfigError
from engine.ir import FileNames, load_model
from engine.simulate.tensors import random_feed
from tests.engine.calibrate.models import identity
from tests.golden_cases import BUNDLED

MODEL = load_model(BUNDLED / "conversions" / "b2_gemm.quant.onnx")


@pytest.mark.parametrize(
    ("first", "second", "digits", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], 5, Mismatches(total=2)),
        ([1.0], [1.0000049], 5, Mismatches(total=1)),
        ([1.0], [1.0000051], 5, Mismatches(diff=1, total=1)),
        ([1.0], [1.4], 0, Mismatches(total=1)),
        ([1.0], [1.6], 0, Mismatches(diff=1, total=1)),
        ([np.nan, np.nan], [np.nan, 1.0], 5, Mismatches(nan=1, total=2)),
        ([np.inf], [np.inf], 5, Mismatches(total=1)),
        ([np.inf], [-np.inf], 5, Mismatches(diff=1, total=1)),
        ([1.0, 2.0, 3.0], [1.0], 5, Mismatches(miss=2, total=3)),
    ],
)
def test_values_to_so_many_decimal_places(
    first: list[float], second: list[float], digits: int, expected: Mismatches
) -> None:
    assert count_mismatches(np.asarray(first), np.asarray(second), digits) == expected


def test_counters_add_up() -> None:
    total = Mismatches(1, 2, 3, 10) + Mismatches(10, 20, 30, 100)
    assert total == Mismatches(11, 22, 33, 110)
    assert total.lines == 66


@pytest.mark.parametrize(("quantized", "compiled"), [(np.zeros(3), None), (None, np.zeros(3))])
def test_what_one_side_lacks_is_missing(
    quantized: np.ndarray | None, compiled: np.ndarray | None, tmp_path: Path
) -> None:
    tensor = ComparedTensor("a/b", quantized, compiled)
    assert tensor.mismatches(5) == Mismatches(miss=3, total=3)
    save(tensor, tmp_path, FileNames())
    side = "x86" if quantized is None else "quanti"
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.npy")] == [f"{side}/a_b.npy"]


@pytest.mark.parametrize("every_node", [False, True])
def test_a_model_equals_itself(every_node: bool) -> None:
    found = list(verify(MODEL, MODEL.clone(), lambda session, copies: random_feed(session.inputs, copies), every_node))
    names = [value.name for node in MODEL.graph for value in node.outputs]
    assert [tensor.name for tensor in found] == (names if every_node else [value.name for value in MODEL.graph.outputs])
    assert all(tensor.mismatches(9).lines == 0 for tensor in found)


def test_inputs_that_the_quantised_model_does_not_have() -> None:
    other = identity((1, 3))
    other.graph.inputs[0].name = "another"
    with pytest.raises(ConfigError, match=r"different inputs: another is in the .bin file only"):
        next(verify(MODEL, other, lambda session, copies: random_feed(session.inputs, copies)))
