"""Toolchains that build, fail, hang or write nothing; the ship folder stays whole."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.chips import March
from engine.errors import ConfigError, ToolchainError
from engine.ship import verify, write
from engine.ship.build import LOG, run_toolchain
from engine.toolchain.command import Command
from engine.toolchain.tool import Toolchain
from tests import toolchains
from tests.engine.ship.conftest import Shipped


@pytest.fixture
def folder(shipped: Shipped, tmp_path: Path) -> Path:
    write(shipped.shipment, tmp_path / "ship")
    return tmp_path / "ship"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_the_toolchain_writes_is_kept(folder: Path, tmp_path: Path) -> None:
    before = names(folder)
    told: list[str] = []
    built = run_toolchain(folder, toolchains.toolchain(tmp_path, toolchains.EQUAL), told.append)
    assert names(folder) == before | {"model_output", LOG}
    assert built.binary == folder.resolve() / "model_output" / "small.bin"
    assert built.binary.read_bytes() == b"for the board"
    assert built.quantized is not None
    assert verify(folder, built.quantized).equal
    assert (built.version, told) == ("1.24.3", ["compiles"])


def test_a_second_build_takes_the_place_of_the_first(folder: Path, tmp_path: Path) -> None:
    run_toolchain(folder, toolchains.toolchain(tmp_path, toolchains.EQUAL))
    (folder / "model_output" / "old.bin").write_bytes(b"")
    built = run_toolchain(folder, toolchains.toolchain(tmp_path, toolchains.DIFFERENT))
    assert built.quantized is not None
    assert not verify(folder, built.quantized).equal
    assert names(folder / "model_output") == {"small.bin", "small_quantized_model.onnx"}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (toolchains.FAILS, "this operator is not supported"),
        (toolchains.HANGS, "ended after 1 s, the time limit"),
        (toolchains.WRITES_NOTHING, "wrote no"),
    ],
)
def test_a_toolchain_that_gives_nothing_leaves_the_folder_whole(
    folder: Path, tmp_path: Path, code: str, message: str
) -> None:
    before = {name: (folder / name).read_bytes() for name in names(folder)}
    with pytest.raises(ToolchainError, match=message) as raised:
        run_toolchain(folder, toolchains.toolchain(tmp_path, code, 1.0 if code == toolchains.HANGS else 60.0))
    assert raised.value.exit_code == 3
    assert names(folder) == {*before, LOG}
    assert all((folder / name).read_bytes() == content for name, content in before.items())
    assert "hb_mapper version 1.24.3" in (folder / LOG).read_text()


def test_a_folder_that_a_container_does_not_see_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    command = Command.parse(toolchains.words(tmp_path, toolchains.EQUAL), "--toolchain", [f"{tmp_path / 'other'}=/x"])
    with pytest.raises(ConfigError, match="does not see this folder"):
        run_toolchain(folder, Toolchain(command))
    assert LOG not in names(folder)


def test_our_own_command_builds_what_we_shipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``hb_mapper makertbin`` of ptqlab in the place of the original: it reads the pairs too."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    code = "from engine.cli.vendor.hb_mapper import main; main()"
    command = Command.parse(f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}", "--toolchain")
    built = run_toolchain(folder, Toolchain(command))
    assert built.quantized is not None
    assert str(verify(folder, built.quantized)).startswith("EQUAL: ")


def test_s100_has_a_file_for_the_board_and_nothing_to_compare(shipped: Shipped, tmp_path: Path) -> None:
    """As far as the documents describe ``hb_compile``: never run against the real one."""
    config = shipped.shipment.config
    parameters = config.model_parameters.model_copy(update={"march": March("nash-e")})
    s100 = replace(shipped.shipment, config=config.model_copy(update={"model_parameters": parameters}))
    record = write(s100, tmp_path / "ship")
    assert "nothing measured" in record.unmeasured
    code = toolchains.START + 'print(sys.argv[1:]); out.mkdir(); (out / "small.hbm").write_bytes(b"")\n'
    built = run_toolchain(tmp_path / "ship", toolchains.toolchain(tmp_path, code))
    assert built.quantized is None
    assert built.binary == (tmp_path / "ship/model_output/small.hbm").resolve()
    assert "['--config', " in (tmp_path / "ship" / LOG).read_text()
    with pytest.raises(ToolchainError, match=r"wrote no \.hbm"):
        run_toolchain(tmp_path / "ship", toolchains.toolchain(tmp_path, toolchains.WRITES_NOTHING))


@pytest.mark.original
def test_the_original_builds_what_we_shipped(folder: Path) -> None:
    import os

    built = run_toolchain(folder, Toolchain(Command.parse(os.environ["PTQLAB_HB_MAPPER"], "PTQLAB_HB_MAPPER")))
    assert built.quantized is not None
    found = verify(folder, built.quantized)
    assert found.equal
    assert found.integers.equal == found.integers.total > 0
