"""Files of chips and what derives from what; one file adds a chip, and a measurement changes figures alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.chips.latency import data_file
from engine.chips.registry import (
    CHIPS,
    DEFAULT_MARCH,
    HB_COMPILE_MARCHES,
    HB_MAPPER_MARCHES,
    MEASURED_MARCHES,
    March,
    chips_in,
    load_chip,
    marches_where,
)
from engine.errors import ConfigError

ROOT = Path(__file__).resolve().parents[3]
MADE_UP = Path(__file__).parent / "made_up" / "made-up.yaml"


def test_every_file_is_a_chip_and_a_choice() -> None:
    names = ["bernoulli2", "bayes", "bayes-e", "nash-e", "nash-m", "nash-p"]
    assert list(CHIPS) == [chip.name for chip in CHIPS.values()] == [march.value for march in March] == names
    assert DEFAULT_MARCH.value in CHIPS


def test_who_converts_and_what_was_measured_are_two_things() -> None:
    assert MEASURED_MARCHES == HB_MAPPER_MARCHES == ("bernoulli2", "bayes", "bayes-e")
    assert HB_COMPILE_MARCHES == ("nash-e", "nash-m", "nash-p")
    measured = load_chip("nash-e").derive("nash-e", measured=True)
    assert (measured.toolchain, measured.extrapolation) == (load_chip("nash-e").toolchain, "")
    assert marches_where(lambda chip: not chip.int16) == ("bernoulli2",)


def test_an_unknown_march_is_refused_in_the_words_of_the_original() -> None:
    with pytest.raises(ConfigError, match=r"march invalid: 'nash' . It should in list \['bernoulli2', .*'nash-p'\]"):
        load_chip("nash")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("derived_from: bayes\n", "chip new is derived from bayes, which is no chip"),
        ("derived_from: new\n", "chip new is derived from new, which is it"),
        ("platform: board\n", "chip new: .*missing"),
    ],
)
def test_a_file_that_is_wrong_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(text)
    with pytest.raises(ValueError, match=message):
        chips_in(tmp_path)


def engine_with(folder: Path, files: dict[str, str]) -> Path:
    """A folder whose ``engine`` is this one but for some files among the chips."""
    package = folder / "engine"
    package.mkdir(parents=True)
    for path in (ROOT / "engine").iterdir():
        if path.name not in ("chips", "__pycache__"):
            (package / path.name).symlink_to(path)
    shutil.copytree(ROOT / "engine" / "chips", package / "chips", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in files.items():
        (package / "chips" / name).write_text(text, encoding="utf-8")
    return folder


def converted(folder: Path, march: str) -> Any:
    """What ``made_up/conversion.py`` prints where the engine is that of ``folder``."""
    (folder / "net").mkdir()
    command = [sys.executable, "-m", "tests.engine.chips.made_up.conversion", march, str(folder / "net")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder, ROOT)))}
    finished = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


@pytest.mark.nightly
def test_one_file_adds_a_chip(tmp_path: Path) -> None:
    text = MADE_UP.read_text(encoding="utf-8")
    found = converted(engine_with(tmp_path, {MADE_UP.name: text}), "made-up")
    assert found["facts"]["command"] == "hb_mapper"
    devices = {node: on for node, on, _ in found["facts"]["nodes"]}
    assert (devices["first"], devices["second"], devices["pool"]) == ("CPU", "CPU", "BPU")
    assert found["facts"]["files"][0] == "small.bin"
    assert found["figures"]["title"] == "made-up (extrapolated from bayes-e; nothing measured)"
    assert found["figures"]["latency_us"] > 0


@pytest.mark.nightly
def test_a_measurement_changes_figures_and_nothing_else(tmp_path: Path) -> None:
    """As if someone had measured an S100: ``measured: true`` in the file of the chip, and a file of its latency."""
    chip = (ROOT / "engine" / "chips" / "nash-e.yaml").read_text(encoding="utf-8") + "measured: true\n"
    latency = data_file("bayes-e").read_text(encoding="utf-8").replace("cores: 1", "cores: 2")
    latency = latency.replace("mac_rate: 2557.0", "mac_rate: 9000.0").replace("layer_us: 0.7351", "layer_us: 0.2")
    files = {"nash-e.yaml": chip, "latency/nash-e.yaml": latency}
    before = converted(engine_with(tmp_path / "before", {}), "nash-e")
    after = converted(engine_with(tmp_path / "after", files), "nash-e")
    assert before["facts"] == after["facts"]
    assert before["facts"]["command"] == "hb_compile"
    assert "hb_compile converts for it" in before["facts"]["dialect of hb_mapper"]
    assert "a pair says int8" in before["facts"]["int16 shipped"]
    assert after["figures"].pop("latency_us") < before["figures"].pop("latency_us")
    assert all("nothing measured" in str(figure) for figure in before["figures"].values())
    assert not any("nothing measured" in str(figure) for figure in after["figures"].values())
