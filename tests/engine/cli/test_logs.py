"""The log of a command, where it cannot be kept or shown as it is."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from engine.cli.logs import logged, spoken
from engine.errors import NO_MEMORY, ConfigError, PtqlabError

ROOT = Path(__file__).parents[3]
COMMAND = r"""
import os, sys
from pathlib import Path
from engine.cli.logs import logged, spoken

with logged("test", Path(sys.argv[1])) as logger:
    logger.info("%s: \N{GREEK SMALL LETTER MU}", os.fsdecode(b"\xff.bin"))
"""


def run(log: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, str(log)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_characters_that_cannot_be_written_are_escaped(tmp_path: Path) -> None:
    finished = run(tmp_path / "x.log", PYTHONIOENCODING="ascii")
    assert finished.stdout.endswith(r"\udcff.bin: \u03bc" + "\n")
    assert finished.stderr == ""
    assert (tmp_path / "x.log").read_text("utf-8").endswith("\\udcff.bin: \N{GREEK SMALL LETTER MU}\n")


def test_a_log_that_cannot_be_written_costs_a_line(tmp_path: Path) -> None:
    finished = run(tmp_path)
    assert ".bin" in finished.stdout
    assert finished.stderr == f"{tmp_path}: cannot be written (Is a directory); the log goes only to the terminal\n"


class FailedError(PtqlabError):
    exit_code = 7


@pytest.mark.parametrize(("error", "code"), [(ConfigError("no\nway"), 255), (FailedError("no\nway"), 7)])
def test_an_error_of_the_user_is_logged_and_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: PtqlabError, code: int
) -> None:
    file = tmp_path / "c.log"
    with pytest.raises(typer.Exit) as caught, logged("makertbin", file):
        raise error
    assert caught.value.exit_code == code
    text = file.read_text()
    assert "ERROR no\nway" in text
    assert text.endswith("ERROR exception in command: makertbin\n")
    assert capsys.readouterr().out == text


def test_other_errors_are_nobodys_log(tmp_path: Path) -> None:
    with pytest.raises(KeyError), logged("c", tmp_path / "c.log"):
        raise KeyError("a defect")
    assert (tmp_path / "c.log").read_text() == ""


def test_a_log_begins_anew_and_leaves_the_logger_as_it_was(tmp_path: Path) -> None:
    engine = logging.getLogger("engine")
    before = engine.level, list(engine.handlers)
    for text in ("first", "second"):
        with logged("c", tmp_path / "c.log") as logger:
            logger.info(text)
            logger.debug("never")
            logging.getLogger("engine.chips").info("of a room")
    lines = (tmp_path / "c.log").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == ["INFO second", "INFO of a room"]
    assert (engine.level, list(engine.handlers)) == before


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), NO_MEMORY),
        (OSError(errno.EMFILE, "Too many open files", "m.onnx"), "m.onnx: Too many open files; raise the limit"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
    ],
)
def test_what_the_system_refuses_is_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception, words: str
) -> None:
    with pytest.raises(typer.Exit) as caught, logged("makertbin", tmp_path / "c.log"):
        raise error
    assert caught.value.exit_code == 255
    assert f"ERROR {words}" in capsys.readouterr().out
    assert "Traceback" not in (tmp_path / "c.log").read_text()


def test_what_a_logger_reports_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("engine.test_logs")
    with spoken("engine.test_logs"):
        logger.info("written: %s", "a.png")
    logger.info("afterwards")
    assert capsys.readouterr().out == "written: a.png\n"


def test_a_log_that_becomes_full_costs_a_line(tmp_path: Path) -> None:
    script = (
        "import resource, sys, logging; from pathlib import Path; from engine.cli.logs import logged\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "with logged('test', Path(sys.argv[1])) as logger:\n"
        "    for index in range(9):\n"
        "        logger.info('a line of some length, number %d', index)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", script, str(tmp_path / "x.log")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.count("number") == 9
    assert ended.stderr == f"{tmp_path}/x.log: cannot be written (File too large); the log goes only to the terminal\n"
