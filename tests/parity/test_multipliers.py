"""Multipliers and shifts are those of the original where its arithmetic shows: near halves and near the largest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from engine.config import load_config
from engine.convert import conversion
from engine.convert.items import QUANTIZED
from engine.ir import to_bytes
from engine.ops.core.fixed_point import requantization
from tests.parity.multipliers import ASKED, RECORDED, Question, answers, write

GROUPS = json.loads(RECORDED.read_text(encoding="utf-8"))


def test_all_kinds_are_recorded() -> None:
    assert [(group["kind"], group["march"]) for group in GROUPS] == list(ASKED)
    assert all(len(group["answers"]) >= 20 for group in GROUPS)


def recorded(kind: str) -> list[Any]:
    return [pair for group in GROUPS if group["kind"] == kind for pair in group["answers"]]


@pytest.mark.parametrize(
    ("group", "ours"),
    [
        *((group, group["kind"]) for group in GROUPS if group["kind"] not in {"Add", "Concat"}),
        *((group, "Sub") for group in GROUPS if group["kind"] == "Add"),
    ],
    ids=lambda each: each if isinstance(each, str) else f"{each['kind']}_{each['march']}",
)
def test_every_multiplier_and_shift_is_the_original_s(group: dict[str, Any], ours: str, tmp_path: Path) -> None:
    """A sum is asked as a difference: of ``load`` ptqlab still takes one into the convolution whose threshold is given,
    which the original leaves apart.
    """
    asked = [Question(*scales) for scales, _ in group["answers"]]
    converted = conversion(load_config(write(tmp_path, ours, group["march"], asked)))[QUANTIZED]
    found = answers(onnx.load_model_from_string(to_bytes(converted)), ours, len(asked))
    assert found == [answer for _, answer in group["answers"]]


def test_what_is_requantised_is_divided_in_float32() -> None:
    """The operands of the Concats are asked of the function: with ``load`` ptqlab rescales none of them."""
    for (first, _, output), (scale, shift) in recorded("Concat"):
        split = requantization(np.float32(first) / np.float32(output), 8, half_up=True)
        assert (split.scale[0], split.right_shift[0] + split.out_shift[0]) == (scale, shift)
