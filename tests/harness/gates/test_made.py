"""How a trial came about, as a file keeps it."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from harness.gates.made import Answers, KeptNode, Made, made_of
from harness.trials.trial import Outcome, TrialStore
from tests.harness import fakes


def test_a_node_is_one_line_of_text_and_comes_back() -> None:
    nodes = {row.node: KeptNode.of(row) for row in fakes.NODES}
    made = Made(engine="0", calibration_samples=1, evaluation_samples=2, nodes=nodes)
    text = made.model_dump_json()
    assert json.loads(text)["nodes"] == {
        "conv": "BPU | HzSQuantizedConv | int8 | 1.5 | 0.999 | ",
        "softmax": "CPU | Softmax | float |  |  | no operator",
    }
    assert Made.model_validate_json(text) == made


def test_a_reason_may_hold_the_separator() -> None:
    node = KeptNode(on="CPU", type="Foo", data_type="float", reason="a | b")
    assert KeptNode.model_validate_json(node.model_dump_json()) == node


def test_a_damaged_line_is_refused() -> None:
    with pytest.raises(ValidationError, match="expected six fields"):
        KeptNode.model_validate_json('"BPU | Conv"')


def test_answers_are_packed_whole() -> None:
    classes = np.array([3, 0, 70_000, 1])
    answers = Answers.of(classes)
    assert answers.array().tolist() == classes.tolist()
    with pytest.raises(ValidationError, match="holds 16 bytes, expected 20"):
        Answers(count=5, packed=answers.packed)
    with pytest.raises(ValidationError, match="packed"):
        Answers(count=4, packed="x")
    bomb = base64.b64encode(zlib.compress(bytes(1 << 24))).decode()
    with pytest.raises(ValidationError, match="holds 17 bytes, expected 16"):  # no more is unpacked
        Answers(count=4, packed=bomb)
    with pytest.raises(ValidationError, match="less than or equal to 10000000"):
        Answers(count=1 << 61, packed=answers.packed)


def test_a_failed_trial_keeps_what_it_was_asked(tmp_path: Path) -> None:
    store, spec = TrialStore(tmp_path), fakes.spec()
    assert made_of(fakes.failed(spec), store) == Made(engine="0", calibration_samples=10, evaluation_samples=40)
    arrays = {"per_sample": fakes.hits(3), "classes": np.arange(40)}
    store.put(Outcome(fakes.result(spec), fakes.NODES, arrays))
    made = made_of(fakes.result(spec), store)
    assert made.float_score == 0.95
    assert made.answers is not None
    assert made.answers.array().tolist() == list(range(40))
    assert made.nodes["softmax"].reason == "no operator"
