"""Commands of the user's: words, mounted folders, time limits, what they print."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from pathlib import Path, PurePosixPath

import pytest

from engine.errors import ConfigError
from engine.toolchain.command import CUT_OFF, Command, Mount


def python(code: str) -> Command:
    return Command.parse(f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}", "--toolchain")


@pytest.mark.parametrize("text", ["", "no-such-program-anywhere", "'open"])
def test_a_command_that_cannot_be(text: str) -> None:
    with pytest.raises(ConfigError, match="--toolchain"):
        Command.parse(text, "--toolchain")


def test_files_are_absolute_unless_folders_are_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tool.py").write_text("")
    assert Command.parse("python3 tool.py", "-t").words[1] == str(tmp_path / "tool.py")
    assert Command.parse("python3 tool.py", "-t", [f"{tmp_path}=/work"]).words[1] == "tool.py"


def test_a_path_is_translated_by_the_innermost_mount(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    command = Command.parse("python3", "-t", [f"{tmp_path}=/outer", f"{tmp_path / 'a'}=/inner"])
    assert command.path(tmp_path / "net.yaml") == "/outer/net.yaml"
    assert command.path(tmp_path / "a" / "b") == "/inner/b"
    with pytest.raises(ConfigError, match="does not see this folder"):
        command.path(tmp_path.parent)
    assert Command.parse("python3", "-t").path(tmp_path) == str(tmp_path.resolve())


@pytest.mark.parametrize(
    ("text", "message"),
    [("/only", "expected HOST=CONTAINER"), ("/no/such=/x", "no such folder"), ("/tmp=relative", "absolute")],
)
def test_a_mount_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Mount.parse(text)


def test_a_mount_of_a_folder_with_an_equals_sign(tmp_path: Path) -> None:
    (tmp_path / "a=b").mkdir()
    found = Mount.parse(f"{tmp_path / 'a=b'}=/work")
    assert found == Mount((tmp_path / "a=b").resolve(), PurePosixPath("/work"))


def test_lines_are_shown_as_they_come(tmp_path: Path) -> None:
    lines: list[str] = []
    done = python("print('one'); print('1%\\r2%'); import sys; sys.exit(3)").run([], tmp_path, 60.0, lines.append)
    assert (done.code, lines) == (3, ["one", "1%", "2%"])
    assert done.text == "one\n1%\r2%\n"


def test_what_a_command_started_is_ended_with_it(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time; "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        "print(child.pid, flush=True); time.sleep(60)"
    )
    done = python(code).run([], tmp_path, 1.0)
    assert done.code == CUT_OFF
    child = int(done.text)
    until = time.monotonic() + 10.0
    while is_running(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_running(child)


def is_running(process: int) -> bool:
    try:
        return f"{process} (" in Path(f"/proc/{process}/stat").read_text() and not is_zombie(process)
    except OSError:
        return False


def is_zombie(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_command_is_stopped_from_another_thread(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(KeyboardInterrupt):
        python("import time; time.sleep(60)").run([], tmp_path, 60.0, stop=stop)


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_bytes(b"no program")
    program.chmod(0o700)
    with pytest.raises(ConfigError, match="cannot be started"):
        Command((str(program),)).run([], tmp_path, 1.0)
