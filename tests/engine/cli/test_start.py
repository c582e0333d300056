"""How console scripts start: what is deferred, how often garbage is looked for, which function runs."""

from __future__ import annotations

import errno
import gc
import io
import logging
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest

from engine.cli import start
from engine.cli.start import command, prepare
from engine.errors import NO_MEMORY
from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def _process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leaves the process as it was, modules that are deferred among it."""
    thresholds = gc.get_threshold()
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(logging, "lastResort", logging.StreamHandler(io.StringIO()))
    yield
    gc.set_threshold(*thresholds)


def test_preparing_again_changes_nothing() -> None:
    prepare()
    finders = list(sys.meta_path)
    assert gc.get_threshold()[0] == 500_000
    prepare()
    assert sys.meta_path == finders


def test_objects_are_not_looked_through_at_the_end() -> None:
    code = (
        "import atexit, gc\n"
        "from engine.cli.start import prepare\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 0))\n"
        "prepare()\nprint(gc.get_freeze_count())"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["0", "True"]


def test_what_no_command_logs_does_nothing_to_a_terminal() -> None:
    prepare()
    assert isinstance(logging.lastResort, logging.StreamHandler)
    logging.lastResort.emit(logging.LogRecord("n", logging.WARNING, "f", 1, "file \x1b[2K", (), None))
    assert logging.lastResort.stream.getvalue() == "file \\x1b[2K\n"


def test_a_command_prepares_and_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    monkeypatch.setattr(start, "prepare", lambda: done.append("prepared"))
    monkeypatch.setattr("engine.cli.vendor.hb_pack.main", lambda: done.append("called"))
    assert command("engine.cli.vendor.hb_pack")() is None
    assert done == ["prepared", "called"]


def test_console_scripts_are_functions_of_this_module_that_import() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    ours = {name: target.partition(":")[2] for name, target in scripts.items() if target.startswith(start.__name__)}
    assert ours
    for name, function in ours.items():
        assert callable(getattr(start, function)), name


@pytest.mark.parametrize(("missing", "is_told"), [("plotly.graph_objects", True), ("engine.gone", False)])
def test_a_package_of_pages_that_is_missing_is_told_by_name(
    missing: str, is_told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any other module that is not there is a defect."""

    def fail() -> None:
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.setattr("engine.cli.vendor.hb_pack.main", fail)
    with pytest.raises(SystemExit if is_told else ModuleNotFoundError) as raised:
        command("engine.cli.vendor.hb_pack")()
    said = capsys.readouterr().err
    if is_told:
        assert raised.value.code == 255
        assert said == f"Error: writing pages needs the package {missing}: pip install 'ptqlab-engine[pages]'\n"
    else:
        assert not said


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), NO_MEMORY),
        (ImportError("libscipy.so: failed to map segment from shared object"), NO_MEMORY),
        (OSError(errno.ENOLCK, "No locks available", "x"), "x: No locks available"),
        (OSError(errno.ENFILE, "Too many open files in system"), "Too many open files in system; raise the limit"),
    ],
)
def test_what_the_system_refuses_is_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, words: str
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("engine.cli.vendor.hb_pack.main", fail)
    with pytest.raises(SystemExit) as ended:
        command("engine.cli.vendor.hb_pack")()
    assert ended.value.code == 255
    assert capsys.readouterr().err.startswith(f"Error: {words}")
