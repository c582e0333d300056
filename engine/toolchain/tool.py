"""The user's own installation of the original toolchain, asked to convert."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from engine.chips import HB_COMPILE_MARCHES, March
from engine.errors import ConfigError
from engine.toolchain.command import MOST_BYTES, Command, Finished
from engine.toolchain.log import Log, is_log, progress_in, read_log, reason, tidied, version_in

VARIABLE = "PTQLAB_HB_MAPPER"
"""Environment variable that has the command."""
TIME_LIMIT = 3600.0
"""Seconds that a conversion may take unless the user says otherwise."""
VERSION_SECONDS = 120.0
LOG_FILES = ("hb_mapper_makertbin.log", "hb_compile.log")
"""What the tools write where they are started; read if they print none: version 1.24.3 writes other lines there."""
STAGES = ("original_float", "optimized_float", "calibrated", "quantized")
"""Models that the tool writes: ``*_STAGE_model.onnx``."""

Tell = Callable[[str], None]
"""Told what the tool is at."""


@dataclass(frozen=True)
class Conversion:
    """What the tool made of a configuration.

    Attributes:
        finished: the run.
        log: what its log says.
        text: the log.
        models: its models by stage; those that it wrote.
        binary: the file for the board; None where it wrote none.
        failure: why there is no result, in one line; empty where there is one: the quantised model, for S100 the
            file for the board, because its quantised model is no ONNX file.
        version: of the tool, such as ``1.24.3``; empty where it does not say.
    """

    finished: Finished
    log: Log
    text: str
    models: Mapping[str, Path]
    binary: Path | None
    failure: str
    version: str


@dataclass(frozen=True)
class Toolchain:
    """The tool, and how long it may take.

    Attributes:
        command: that has ``makertbin``; for S100, ``hb_compile`` itself.
        time_limit: seconds of a conversion.
        stop: ends a conversion in another thread when set.
    """

    command: Command
    time_limit: float = TIME_LIMIT
    stop: threading.Event = field(default_factory=threading.Event, compare=False)

    def version(self, folder: Path) -> str:
        """What it says of its version: the last line that it prints, empty where it prints nothing."""
        printed = list(tidied(self.command.run(["--version"], folder, VERSION_SECONDS).text))
        return printed[-1].strip() if printed else ""

    def convert(
        self,
        config: Path,
        out: Path,
        *,
        kind: str = "onnx",
        march: March | None = None,
        tell: Tell | None = None,
        folders: Mapping[str, str] = MappingProxyType({}),
    ) -> Conversion:
        """Convert as ``config`` says.

        Args:
            config: the configuration; the tool is started in its folder.
            out: its ``working_dir``.
            kind: ``onnx`` or ``caffe``.
            march: of the configuration; those of S100 have another command line.
            tell: told what the tool is at, whenever that changes.
            folders: names for folders of the user's in messages (:func:`~engine.toolchain.log.read_log`).

        Raises:
            ConfigError: the command cannot be started, or does not see the folder.
        """
        start = config.parent
        given, s100 = self.command.path(config), march in HB_COMPILE_MARCHES
        arguments = ["--config", given] if s100 else ["makertbin", "--config", given, "--model-type", kind]
        finished = self.command.run(arguments, start, self.time_limit, _teller(tell), self.stop)
        written = [text for name in LOG_FILES if (text := read_text(start / name))]
        text = finished.text if not written or is_log(finished.text) else written[0]
        names = {str(start): ".", given.rpartition("/")[0]: ".", **folders}
        log = read_log(text, names)
        models = {stage: found[0] for stage in STAGES if (found := sorted(out.glob(f"*_{stage}_model.onnx")))}
        binary = next(iter(sorted((*out.glob("*.bin"), *out.glob("*.hbm")))), None)
        failure = ""
        if finished.code:
            failure = reason(finished, names, text)
        elif s100 and binary is None:
            failure = f"it reported success but wrote no .hbm to {out.name}"
        elif not s100 and "quantized" not in models:
            failure = f"it reported success but wrote no *_quantized_model.onnx to {out.name}"
        return Conversion(finished, log, text, models, binary, failure, version_in(log.versions))


def find_toolchain(text: str | None, mounts: Sequence[str] = (), time_limit: float = TIME_LIMIT) -> Toolchain | None:
    """The tool that ``--toolchain`` or the environment variable :data:`VARIABLE` names; None where neither does.

    Args:
        text: of the option; None where it is not given, empty for no tool whatever the variable says.
        mounts: ``HOST=CONTAINER`` each.
        time_limit: seconds of a conversion.

    Raises:
        ConfigError: the command or a mount is wrong.
    """
    option = VARIABLE if text is None else "--toolchain"
    text = os.environ.get(VARIABLE, "").strip() if text is None else text
    if not text:
        if mounts:
            raise ConfigError(f"--mount belongs to --toolchain or {VARIABLE}, and neither is given")
        return None
    return Toolchain(Command.parse(text, option, mounts), time_limit)


def read_text(path: Path) -> str:
    """The end of a text file; empty where there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - MOST_BYTES))
        return stream.read().decode("utf-8", errors="replace")


def _teller(tell: Tell | None) -> Callable[[str], None] | None:
    """What hears the tool's lines and tells only what is new."""
    if tell is None:
        return None
    last = [""]

    def hear(line: str) -> None:
        said = progress_in(line)
        if said is not None and said != last[0]:
            last[0] = said
            tell(said)

    return hear
