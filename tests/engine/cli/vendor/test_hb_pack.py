"""Several containers as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.cli.vendor import hb_model_info, hb_model_modifier, hb_pack, hb_perf
from engine.compile import load_bin
from engine.compile.pack import open_models
from engine.errors import PtqlabError
from tests.engine.cli.vendor.board import run


def test_models_of_a_packed_file(folder: Path) -> None:
    run(hb_pack.app, "feature.bin", "image.bin", "-o", "both.bin")
    models = open_models(folder / "both.bin")
    assert [model.to_bytes() for model in models] == [Path(n).read_bytes() for n in ("feature.bin", "image.bin")]
    run(hb_perf.app, "both.bin", "-m", "image")
    assert [path.name for path in (folder / "hb_perf_result").iterdir()] == ["image"]
    shown = run(hb_model_info.app, "both.bin")
    assert "******** feature info" in shown
    assert "******** image info" in shown
    assert "feature info" not in run(hb_model_info.app, "both.bin", "-m", "image")
    assert "it holds feature, image" in run(hb_model_info.app, "both.bin", "-m", "other", code=255)


def test_what_cannot_be_packed_or_used(folder: Path) -> None:
    run(hb_pack.app, "feature.bin", "image.bin", "-o", "both.bin")
    message = "is a packed model, it can not be packed again!"
    assert message in run(hb_pack.app, "both.bin", "image.bin", "-o", "more.bin", code=255)
    assert "names must differ" in run(hb_pack.app, "image.bin", "image.bin", "-o", "more.bin", code=255)
    assert not (folder / "more.bin").exists()
    assert "pack model is not supported" in run(hb_model_modifier.app, "both.bin", code=255)
    with pytest.raises(PtqlabError, match="pack model is not supported"):
        load_bin(folder / "both.bin")
