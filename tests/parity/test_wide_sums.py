"""Residual blocks and Clips in int16 here and there are converted as the original converts them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from engine.config import load_config
from engine.convert import conversion
from engine.convert.items import QUANTIZED
from engine.ir import load_model
from engine.quantize.diff import Aspect, diff
from tests.parity.wide_sums import CASES, RECORDED


def test_all_cases_are_recorded() -> None:
    assert {path.name.removesuffix(".onnx.gz") for path in RECORDED.iterdir()} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_every_node_and_integer_is_the_original_s(name: str, tmp_path: Path) -> None:
    ours = conversion(load_config(CASES[name].write(tmp_path)))[QUANTIZED]
    (tmp_path / "theirs.onnx").write_bytes(gzip.decompress((RECORDED / f"{name}.onnx.gz").read_bytes()))
    found = diff(ours, load_model(tmp_path / "theirs.onnx"))
    assert not [str(each) for each in found if each.aspect is not Aspect.NAME]
