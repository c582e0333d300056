"""A model of any structure is checked, or refused with a message of ours."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import onnx_ir as ir
from hypothesis import given
from hypothesis import strategies as st

from engine.chips import MEASURED_MARCHES
from engine.convert import Draft, check
from engine.errors import PtqlabError
from tests.fuzz.structures import changed
from tests.strategies.pass_patterns import PATTERNS
from tests.strategies.patterns import pattern_cases


@given(data=st.data())
def test_any_structure_is_checked_or_refused(data: st.DataObject) -> None:
    case = data.draw(pattern_cases(data.draw(st.sampled_from(list(PATTERNS.values())))))
    model = changed(ir.to_proto(case.model), random.Random(data.draw(st.integers(0, 2**32))))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        path.write_bytes(model.SerializeToString())
        assert outcome(path, data.draw(st.sampled_from(MEASURED_MARCHES)))


def outcome(path: Path, march: str) -> object:
    """The node table of the checker, or the message of a refusal; all else propagates."""
    try:
        return check(path, Draft(march)).nodes
    except PtqlabError as error:
        return str(error)
