"""Command ``ptqlab``: sweeps, their results, and small tools around the engine.

Each command imports what it needs when it runs, so that ``--help`` is fast.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from engine.cli.common import version_option
from engine.cli.console import say
from engine.cli.lab import COMMANDS, GROUPS
from engine.cli.late import register
from engine.cli.named import FIX, INPUT_SHAPE, join_pairs
from engine.compat.command import app as compat
from engine.errors import NO_MEMORY, OutputError, PtqlabError, system_message
from harness.cli.bench import bench
from harness.cli.digest import digest
from harness.cli.flow import classify, evaluate, prepare, sample
from harness.cli.gc import gc
from harness.cli.init import init
from harness.cli.listing import list_things, validate
from harness.cli.model import model
from harness.cli.results import compare, show
from harness.cli.rewrite import rewrite
from harness.cli.serve import serve
from harness.cli.ship import ship
from harness.cli.sweeps import nightly, run
from harness.cli.sync import sync
from harness.cli.tune import tune
from harness.cli.why import why

app = typer.Typer(
    name="ptqlab",
    help="An open accuracy lab for post-training quantization to BPU accelerators.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def common(version: Annotated[bool, version_option("ptqlab")] = False) -> None:
    """An open accuracy lab for post-training quantization to BPU accelerators."""


EXIT_NOT_WRITTEN = 16
"""A result cannot be written: the disk is full, or the folder read-only."""
_CANNOT_WRITE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EFBIG}
)


def main() -> None:
    """Entry point of the command ``ptqlab``."""
    words = sys.argv[1:] = join_pairs(sys.argv[1:], (INPUT_SHAPE, FIX))
    if len(words) > 1 and words[-1] == "--version" and not any(word.startswith("-") for word in words[:-1]):
        sys.argv[1:] = ["--version"]  # ptqlab run --version
    try:
        app()
    except OutputError as error:
        say(f"ERROR: {error}", err=True)
        sys.exit(EXIT_NOT_WRITTEN)
    except PtqlabError as error:
        say(f"ERROR: {error}", err=True)
        sys.exit(error.exit_code)
    except MemoryError:
        say(f"ERROR: {NO_MEMORY}", err=True)
        sys.exit(PtqlabError.exit_code)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            say(f"ERROR: {system_message(error)}", err=True)
            sys.exit(PtqlabError.exit_code)
        where = f"{error.filename}: " if error.filename else ""
        say(f"ERROR: {where}cannot be written: {error.strerror}", err=True)
        sys.exit(EXIT_NOT_WRITTEN)


_OWN: Mapping[str, Callable[..., None]] = {
    "init": init,
    "run": run,
    "nightly": nightly,
    "ls": list_things,
    "validate": validate,
    "show": show,
    "compare": compare,
    "why": why,
    "serve": serve,
    "gc": gc,
    "sync": sync,
    "bench": bench,
    "digest": digest,
    "prepare": prepare,
    "evaluate": evaluate,
    "classify": classify,
    "sample": sample,
    "model": model,
    "rewrite": rewrite,
    "tune": tune,
    "ship": ship,
}

for _name, _command in {**_OWN, **COMMANDS}.items():
    register(app, _name, _command)
for _name, _group in {**GROUPS, "compat": compat}.items():
    app.add_typer(_group, name=_name)
