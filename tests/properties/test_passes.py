"""Every optimiser pass by itself computes what it replaces: on generated networks and on the bundled ones."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chips import MEASURED_MARCHES, load_chip
from engine.frontend.onnx import load_onnx
from engine.ir import to_bytes
from engine.optimize import MAX_ROUNDS, optimize, pipeline
from tests.engine.optimize.equivalence import assert_equivalent
from tests.strategies.pass_patterns import PATTERNS
from tests.strategies.patterns import pattern_cases

ZOO = sorted((Path(__file__).resolve().parents[2] / "suites" / "zoo").glob("*.onnx"))

PASSES = {type(item).__name__: type(item) for march in MEASURED_MARCHES for item in pipeline(load_chip(march))}


@pytest.mark.parametrize("name", PASSES)
@given(data=st.data())
def test_pass_is_equivalent(name: str, data: st.DataObject) -> None:
    """Parametrised over the pipelines: a pass without a pattern fails."""
    kind = PASSES[name]
    case = data.draw(pattern_cases(PATTERNS[kind]))
    rewritten = {}
    for march in MEASURED_MARCHES:
        own = next(item for item in pipeline(load_chip(march)) if type(item) is kind)
        after = case.model.clone()
        if own(after).modified:
            rewritten[to_bytes(after)] = after
    assert rewritten or case.shared, "the pass does not find its pattern"
    for after in rewritten.values():
        assert_equivalent(case.model, after, case.seed)


@pytest.mark.parametrize("march", MEASURED_MARCHES)
@pytest.mark.parametrize("path", ZOO, ids=lambda path: path.stem)
def test_every_step_on_a_bundled_network_is_equivalent(path: Path, march: str) -> None:
    """The passes one by one, in the order and number of an optimisation; each that finds something is compared."""
    steps = pipeline(load_chip(march))
    model = load_onnx(path)
    apply_each(steps.opening, model)
    for _ in range(MAX_ROUNDS):
        while apply_each(steps.round, model):
            pass
        if not apply_each(steps.settled, model):
            break
    apply_each(steps.closing, model)
    assert [node.name for node in model.graph] == [node.name for node in optimize(load_onnx(path), march).graph]


def apply_each(steps: Iterable[ir.passes.PassBase], model: ir.Model) -> bool:
    """Apply ``steps`` to ``model`` in turn, comparing the outputs wherever one finds something; whether one did."""
    modified = False
    for step in steps:
        before = model.clone()
        if step(model).modified:
            assert_equivalent(before, model)
            modified = True
    return modified
