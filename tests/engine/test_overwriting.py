"""Nothing is written over what is read, however it is reached."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from engine.cli.lab import COMMANDS
from engine.cli.vendor import hb_model_modifier, hb_pack, vec_diff
from engine.config import parse_config
from engine.convert import convert
from engine.errors import ConfigError
from engine.ir import refuse_overwriting


def same(folder: Path, source: Path) -> Path:
    return folder / "." / source.name


def by_folder(folder: Path, source: Path) -> Path:
    (folder / "link").symlink_to(folder)
    return folder / "link" / source.name


def symbolic(folder: Path, source: Path) -> Path:
    (folder / "other").symlink_to(source)
    return folder / "other"


def hard(folder: Path, source: Path) -> Path:
    os.link(source, folder / "other")
    return folder / "other"


WAYS: tuple[Callable[[Path, Path], Path], ...] = (same, by_folder, symbolic, hard)


class TestRule:
    @pytest.mark.parametrize("way", WAYS)
    def test_an_input_by_any_way(self, way: Callable[[Path, Path], Path], tmp_path: Path) -> None:
        source = tmp_path / "model.onnx"
        source.touch()
        output = way(tmp_path, source)
        with pytest.raises(ConfigError, match=f"^{output} would overwrite {source}, which is read"):
            refuse_overwriting([tmp_path / "fine", output], [None, source])

    def test_a_file_of_a_folder_that_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        with pytest.raises(ConfigError, match="data"):
            refuse_overwriting([tmp_path / "data" / "new.bin"], [tmp_path / "data"])
        refuse_overwriting([tmp_path / "data" / "out" / "new.bin"], [tmp_path / "data"])  # those below are not read

    def test_a_folder_that_is_replaced_with_what_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "dump" / "input").mkdir(parents=True)
        with pytest.raises(ConfigError, match="dump"):
            refuse_overwriting([tmp_path / "dump"], [tmp_path / "dump" / "input"])

    def test_other_files_are_fine(self, tmp_path: Path) -> None:
        source = tmp_path / "model.onnx"
        source.touch()
        refuse_overwriting([tmp_path / "model.bin", tmp_path / "sub" / "model.onnx", None], [source, None])
        refuse_overwriting([tmp_path / "model.onnx.bin"], [tmp_path / "model.onnx"])
        refuse_overwriting([tmp_path / "absent"], [tmp_path / "missing"])


def lab(name: str, *arguments: str) -> tuple[Any, list[str]]:
    app = typer.Typer()
    app.command(name)(COMMANDS[name])
    return app, list(arguments)


@pytest.mark.parametrize(
    "command",
    [
        lambda source, output: (hb_pack.app, [source, "-o", output]),
        lambda source, output: (hb_model_modifier.app, [source, "-o", output]),
        lambda source, output: (vec_diff.app, [source, source, "-o", output]),
        lambda source, output: lab("export", source, output, "--standard"),
        lambda source, output: lab("explain", source, "--html", output),
    ],
    ids=["hb_pack", "hb_model_modifier", "vec_diff", "export", "explain"],
)
@pytest.mark.parametrize("way", [same, symbolic])
def test_commands_refuse_before_they_read(
    way: Callable[[Path, Path], Path], command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is no model of any kind: whatever read it would say so."""
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "given.bin"
    source.write_bytes(b"content")
    app, arguments = command(str(source), str(way(tmp_path, source)))
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code != 0
    told = found.output + str(found.exception) + "".join(file.read_text() for file in tmp_path.glob("*.log"))
    assert "would overwrite" in told
    assert source.read_bytes() == b"content"


def content(folder: Path, prefix: str, **model: Any) -> dict[str, Any]:
    return {
        "model_parameters": {
            "march": "bayes-e",
            "working_dir": str(folder / "out"),
            "output_model_file_prefix": prefix,
            **model,
        },
        "input_parameters": {
            "input_type_rt": "featuremap",
            "input_type_train": "featuremap",
            "input_layout_train": "NCHW",
            "norm_type": "no_preprocess",
        },
        "calibration_parameters": {"cal_data_dir": str(folder / "data"), "calibration_type": "max"},
    }


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("out/net_original_float_model.onnx", {}),
        ("out/net_quantized_model.onnx", {}),
        ("out/net.bin", {}),
        ("out/net_quant_info.json", {}),
        ("out/net_quantized_model.bc", {"march": "nash-e"}),
        ("out/net.hbm", {"march": "nash-e"}),
    ],
)
def test_a_conversion_keeps_its_model(file: str, changes: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / file
    source.parent.mkdir()
    source.write_bytes(b"no model")
    config = parse_config(content(tmp_path, "net", onnx_model=str(source), **changes))
    with pytest.raises(ConfigError, match=f"{source} would overwrite {source}, which is read"):
        convert(config)
    assert source.read_bytes() == b"no model"


def test_a_conversion_keeps_its_calibration_data(tmp_path: Path) -> None:
    """A dump replaces its folder as a whole; and what is written among the data would be data of the next run."""
    source = tmp_path / "net.onnx"
    source.write_bytes(b"no model")
    given = content(tmp_path, "net", onnx_model=str(source), debug_mode="dump_calibration_data")
    data = tmp_path / "out" / "calibration_data" / "input"
    data.mkdir(parents=True)
    given["calibration_parameters"]["cal_data_dir"] = str(data)
    with pytest.raises(ConfigError, match=f"calibration_data would overwrite {data}"):
        convert(parse_config(given))
    given = content(tmp_path, "net", onnx_model=str(source))
    given["calibration_parameters"]["cal_data_dir"] = str(tmp_path / "out")
    with pytest.raises(ConfigError, match="would overwrite"):
        convert(parse_config(yaml.safe_load(yaml.safe_dump(given))))
