"""Reasons: values that nodes carry, printed by one table."""

from __future__ import annotations

from string import Formatter

import onnx_ir as ir
import pytest

from engine.errors import ModelError
from engine.ir import MARK_REASON
from engine.ops.core.reasons import SENTENCES, Code, because, reason_of, sentence, sentence_of, set_reason


def node() -> ir.Node:
    return ir.node("Relu", [ir.Value(name="x")], name="n")


def test_every_code_has_a_sentence_of_its_own() -> None:
    assert SENTENCES.keys() == set(Code)
    assert len(set(SENTENCES.values())) == len(Code)


@pytest.mark.parametrize("code", Code)
def test_a_node_carries_a_reason_whole(code: Code) -> None:
    names = [name for _, name, _, _ in Formatter().parse(SENTENCES[code]) if name]
    given = because(code, **{name: 7 if name == "limit" else f"{name} of {{braces}}" for name in names})
    carrier = node()
    set_reason(carrier, given)
    assert reason_of(carrier) == given
    assert sentence_of(carrier) == sentence(given)
    assert all(str(value) in sentence(given) for value in given.params.values())


def test_sentences_are_what_users_know() -> None:
    assert sentence(because(Code.DILATION, limit=4)) == "dilation above 4"
    assert sentence(because(Code.KERNEL_SIDES, height=3, width=9, limit=7)) == "kernel 3x9 above 7x7"
    assert sentence(None) == ""


def test_a_node_without_a_reason_has_none() -> None:
    carrier = node()
    set_reason(carrier, because(Code.ASKED_FOR))
    set_reason(carrier, None)
    assert reason_of(carrier) is None
    assert sentence_of(carrier) == ""


@pytest.mark.parametrize("text", ["dilation above 4", "{}", "[]", '{"code": "no_such_code", "params": {}}'])
def test_marks_of_others_are_named(text: str) -> None:
    carrier = node()
    carrier.metadata_props[MARK_REASON] = text
    with pytest.raises(ModelError, match=r"node n: hz\.reason is"):
        reason_of(carrier)
