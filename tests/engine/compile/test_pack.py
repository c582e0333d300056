"""Several models in one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.compile.pack import is_packed, open_models, open_single, pack
from engine.errors import ConfigError, ContainerError
from tests.engine.compile.compiled import residual


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return [residual(name).save(tmp_path / f"{name}.bin") for name in ("one", "two")]


def test_models_come_back_in_order_and_by_name(files: list[Path], tmp_path: Path) -> None:
    packed = pack(files[::-1], tmp_path / "packed.bin")
    assert [is_packed(path) for path in (packed, files[0])] == [True, False]
    assert [model.name for model in open_models(packed)] == ["two", "one"]
    (only,) = open_models(packed, "one")
    assert only.to_bytes() == files[0].read_bytes()
    assert [model.name for model in open_models(files[0])] == ["one"]
    assert open_single(files[0]).name == "one"


def test_what_cannot_be_packed_or_opened_is_named(files: list[Path], tmp_path: Path) -> None:
    packed = pack(files[:1], tmp_path / "packed.bin")
    with pytest.raises(ContainerError, match=r"packed.bin is a packed model, it can not be packed again!"):
        pack([packed], tmp_path / "again.bin")
    with pytest.raises(ContainerError, match=r"packed.bin: pack model is not supported"):
        open_single(packed)
    with pytest.raises(
        ConfigError, match=r"one.bin: its model has the name 'one', like that of .*one.bin; names must differ"
    ):
        pack([files[0], files[0]], tmp_path / "twice.bin")
    assert not (tmp_path / "twice.bin").exists()
    with pytest.raises(ConfigError, match=r"has no model 'three'; it holds one"):
        open_models(packed, "three")
