"""Multipliers and shifts are those of the original where its arithmetic shows: near halves and near the largest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from engine.config import load_config
from engine.convert import conversion
from engine.convert.items import QUANTIZED
from engine.ir import to_bytes
from tests.parity.multipliers import ASKED, RECORDED, Question, answers, write

GROUPS = json.loads(RECORDED.read_text(encoding="utf-8"))


def test_all_kinds_are_recorded() -> None:
    assert [(group["kind"], group["march"]) for group in GROUPS] == list(ASKED)
    assert all(len(group["answers"]) >= 20 for group in GROUPS)


@pytest.mark.parametrize("group", GROUPS, ids=[f"{group['kind']}_{group['march']}" for group in GROUPS])
def test_every_multiplier_and_shift_is_the_original_s(group: dict[str, Any], tmp_path: Path) -> None:
    kind, recorded = group["kind"], group["answers"]
    path = write(tmp_path, kind, group["march"], [Question(*scales) for scales, _ in recorded])
    ours = onnx.load_model_from_string(to_bytes(conversion(load_config(path))[QUANTIZED]))
    assert answers(ours, kind, len(recorded)) == [answer for _, answer in recorded]
