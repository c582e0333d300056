"""A command of the user's, run without a shell in a process group of its own, under a time limit."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from engine.errors import ConfigError

CUT_OFF = -9
"""Exit code of a command that was ended for taking too long."""
MOST_BYTES = 1 << 26
"""How much is kept of what a command prints, from its end."""
DRAIN_SECONDS = 5.0
"""How long the output of an ended command is waited for: a server that it started may hold its pipe open."""
STOP_SECONDS = 0.5
"""How long it takes to hear that a command is to be stopped."""

Show = Callable[[str], None]
"""Told each line that a command prints, as it is printed; a carriage return ends a line too."""


@dataclass(frozen=True)
class Mount:
    """A folder of this machine as the command sees it, as in ``docker run -v HOST:CONTAINER``.

    Attributes:
        host: absolute path of the folder here.
        container: absolute path of the same folder where the command runs.
    """

    host: Path
    container: PurePosixPath

    @classmethod
    def parse(cls, text: str, option: str = "--mount") -> Mount:
        """The mount that ``HOST=CONTAINER`` states.

        Raises:
            ConfigError: it has another form, names no folder here, or no absolute path there.
        """
        host, separator, container = text.rpartition("=")
        if not separator or not host or not container:
            raise ConfigError(f"{option} {text}: expected HOST=CONTAINER, such as {option} $HOME/work=/work")
        if not Path(host).is_dir():
            raise ConfigError(f"{option} {text}: {host}: no such folder on this machine")
        if not container.startswith("/"):
            raise ConfigError(f"{option} {text}: {container}: expected an absolute path")
        return cls(Path(host).resolve(), PurePosixPath(container))


@dataclass(frozen=True)
class Finished:
    """A run of a command.

    Attributes:
        code: exit code; :data:`CUT_OFF` where it was ended for taking too long.
        text: what it printed.
        seconds: how long it ran.
    """

    code: int
    text: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Command:
    """A command line, without a shell.

    Attributes:
        words: program and its first arguments; where nothing is mounted, files among them are absolute.
        mounts: folders that the command sees elsewhere; none where it sees this machine's files as they are.
    """

    words: tuple[str, ...]
    mounts: tuple[Mount, ...] = ()

    @classmethod
    def parse(cls, text: str, option: str, mounts: Sequence[str] = ()) -> Command:
        """The command that ``text`` is, as a shell would split it.

        Args:
            text: such as ``hb_mapper`` or ``docker exec name hb_mapper``.
            option: what messages call it.
            mounts: ``HOST=CONTAINER`` each.

        Raises:
            ConfigError: it is empty, has quotes that are not closed, or names no program; or a mount is wrong.
        """
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise ConfigError(f"{option} {text}: {error}") from error
        if not words:
            raise ConfigError(f"{option}: expected a command, such as hb_mapper")
        program = shutil.which(words[0])
        if program is None:
            raise ConfigError(f"{option} {text}: {words[0]}: no such program")
        known = tuple(Mount.parse(mount) for mount in mounts)
        rest = words[1:] if known else [os.path.abspath(word) if os.path.isfile(word) else word for word in words[1:]]
        return cls((os.path.abspath(program), *rest), known)

    @property
    def name(self) -> str:
        """The command for messages: the last of its words, which is the tool behind ``docker exec ...``."""
        return os.path.basename(self.words[-1])

    def path(self, path: Path) -> str:
        """``path`` as the command sees it.

        Raises:
            ConfigError: folders are mounted, and it is in none of them.
        """
        path = path.resolve()
        if not self.mounts:
            return str(path)
        for mount in sorted(self.mounts, key=lambda each: len(each.host.parts), reverse=True):
            if path.is_relative_to(mount.host):
                return str(mount.container / path.relative_to(mount.host))
        folders = ", ".join(str(mount.host) for mount in self.mounts)
        raise ConfigError(f"{path}: the toolchain does not see this folder; mounted are {folders} (--mount)")

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        time_limit: float,
        show: Show | None = None,
        stop: threading.Event | None = None,
    ) -> Finished:
        """Run it with more ``arguments`` in ``folder``; it and what it starts are ended after ``time_limit`` seconds.

        Args:
            arguments: behind the words of the command.
            folder: where it starts.
            time_limit: seconds.
            show: told each line as it is printed, in another thread.
            stop: ends it at once when set.

        Raises:
            ConfigError: it cannot be started.
            KeyboardInterrupt: the user interrupts, or ``stop`` was set; what was started is ended.
        """
        started = time.monotonic()
        try:
            process = subprocess.Popen(
                [*self.words, *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(f"{self.words[0]}: cannot be started: {error.strerror}") from error
        reader = _Reader(process.stdout, show)
        reader.start()
        try:
            code = _code(process, started + time_limit, stop)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        reader.join(DRAIN_SECONDS)
        return Finished(code, reader.text(), time.monotonic() - started)


def _code(process: subprocess.Popen[bytes], until: float, stop: threading.Event | None) -> int:
    """The exit code once the process has ended; :data:`CUT_OFF` if it has not at ``until``, in monotonic seconds."""
    while (left := until - time.monotonic()) > 0:
        if stop is not None and stop.is_set():
            raise KeyboardInterrupt
        with suppress(subprocess.TimeoutExpired):
            return process.wait(left if stop is None else min(left, STOP_SECONDS))
    return CUT_OFF


class _Reader(threading.Thread):
    """Takes what a process prints, so that its pipe is never full."""

    def __init__(self, stream: IO[bytes] | None, show: Show | None) -> None:
        super().__init__(daemon=True)
        self._stream, self._show = stream, show
        self._kept, self._line = bytearray(), bytearray()

    def run(self) -> None:
        """Read until the last holder of the pipe closes it."""
        if self._stream is None:
            return
        while block := os.read(self._stream.fileno(), 1 << 16):
            self._kept += block
            if len(self._kept) > 2 * MOST_BYTES:
                del self._kept[:-MOST_BYTES]
            if self._show is not None:
                self._line += block.replace(b"\r", b"\n")
                *lines, rest = bytes(self._line).split(b"\n")
                self._line = bytearray(rest)
                for line in lines:
                    self._show(line.decode("utf-8", errors="replace"))
        self._stream.close()

    def text(self) -> str:
        """What was printed so far."""
        return bytes(self._kept[-MOST_BYTES:]).decode("utf-8", errors="replace")
