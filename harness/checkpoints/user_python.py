"""The Python of the environment that the user trains in."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.errors import ConfigError, MissingError
from engine.toolchain.command import Command, Finished

OPTION = "--python"
_SECONDS_TO_LOOK = 60.0


@dataclass(frozen=True)
class UserPython:
    """A Python that has what opens a file.

    Attributes:
        program: the interpreter.
    """

    program: Path

    def run(self, script: Path, argument: Path, seconds: float) -> Finished:
        """Run ``script`` in the folder of ``argument``, in a process of its own, for ``seconds`` at most."""
        return Command((str(self.program),)).run([str(script), str(argument)], argument.parent, seconds)


def python_with(package: str, given: Path | None, remedy: str) -> UserPython:
    """``given``, else the Python that runs this, else the one on ``PATH``: the first that has ``package``.

    Args:
        package: that is needed; it is looked for, not imported.
        given: interpreter that the user names, or the folder of its environment.
        remedy: end of the message where none has it.

    Raises:
        ConfigError: ``given`` is no program.
        MissingError: none has ``package``.
    """
    programs = _programs(given)
    for program in programs:
        if _has(program, package):
            return UserPython(program)
    raise MissingError(f"{package} is not in {' nor in '.join(map(str, programs))}: {remedy}")


def _programs(given: Path | None) -> list[Path]:
    """Interpreters to ask; links stay as they are, because they tell an environment."""
    if given is None:
        found = [sys.executable, shutil.which("python"), shutil.which("python3")]
        return [Path(program) for program in dict.fromkeys(found) if program]
    program = given / "bin" / "python" if given.is_dir() else given
    if shutil.which(program) is None:
        raise ConfigError(
            f"{OPTION} {given}: no such program; give the Python of an environment, such as venv/bin/python"
        )
    return [program.absolute()]


def _has(program: Path, package: str) -> bool:
    question = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    with TemporaryDirectory(prefix="ptqlab-python-") as folder:
        return Command((str(program),)).run(["-c", question], Path(folder), _SECONDS_TO_LOOK).code == 0
