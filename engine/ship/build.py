"""A ship folder built by the user's own toolchain: its files are kept in the folder, which stays whole if it fails."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ToolchainError
from engine.ir import write_atomically
from engine.ship.configuration import WORKING_DIR
from engine.ship.folder import CONFIGURATION, NETWORK, read_record, working_folder
from engine.toolchain.log import tidied
from engine.toolchain.tool import Tell, Toolchain

LOG = "toolchain.log"
"""What the toolchain printed, in the ship folder."""


@dataclass(frozen=True)
class Built:
    """What the toolchain made of a ship folder.

    Attributes:
        binary: the file for the board; None where it wrote none.
        quantized: its quantised model; None where it writes none that can be read (S100).
        version: of the toolchain; empty where it does not say.
        seconds: how long it took.
    """

    binary: Path | None
    quantized: Path | None
    version: str
    seconds: float


def run_toolchain(directory: Path, toolchain: Toolchain, tell: Tell | None = None) -> Built:
    """Run the toolchain on a ship folder and keep what it writes in the folder's ``model_output``.

    It works in a folder inside ``directory``, so that a container that sees the one sees the other.

    Args:
        directory: the ship folder.
        toolchain: of the user.
        tell: told what the toolchain is at.

    Raises:
        ConfigError: ``directory`` is no ship folder, or the toolchain does not see it.
        ToolchainError: the toolchain failed, was ended for taking too long, or wrote no model. Nothing of the folder
            has changed but its log.
        OutputError: the folder cannot be written.
    """
    record = read_record(directory)
    directory = directory.resolve()
    toolchain.command.path(directory)  # a container that does not see it is refused first
    out = directory / WORKING_DIR
    with working_folder(directory, directory, ".building-") as work:
        work.chmod(0o755)  # the user of a container may be another
        for name in (NETWORK, CONFIGURATION):
            shutil.copyfile(directory / name, work / name)
        made = work / WORKING_DIR
        done = toolchain.convert(work / CONFIGURATION, made, march=record.march, tell=tell)
        write_atomically(directory / LOG, "".join(f"{line}\n" for line in tidied(done.text)).encode())
        if done.failure:
            raise ToolchainError(
                f"{toolchain.command.name}: {done.failure}; {directory} is complete without it, see its {LOG}"
            )
        binary = None if done.binary is None else out / done.binary.name
        quantized = out / done.models["quantized"].name if "quantized" in done.models else None
        if out.exists():
            out.rename(work / "before")
        made.rename(out)
    return Built(binary, quantized, done.version, done.finished.seconds)
