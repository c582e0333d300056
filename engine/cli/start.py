"""How the console scripts start quickly. This changes the process, so importing a module alone does not do it.

:func:`prepare` defers modules that start-up would load for nothing, and has Python look for cyclic garbage less often,
and not at the end: graphs are many small objects that stay. Log lines have no effect on a terminal
(:mod:`engine.visible`). The functions below it are the console scripts of ``pyproject.toml``.
"""

from __future__ import annotations

import atexit
import gc
import logging
import sys
from collections.abc import Callable
from importlib import import_module

from engine.deferral import DeferringFinder
from engine.errors import NO_MEMORY, MissingError, PtqlabError, system_message
from engine.visible import VisibleFormatter, visible

PAGES = frozenset({"jinja2", "matplotlib", "plotly"})
"""Packages that pages and pictures need; an engine without the lab may lack them (``.ci/engine_wheel.py``)."""
INSTALL_PAGES = "pip install 'ptqlab-engine[pages]'"

_NOT_LOADED = ("failed to map segment", "cannot allocate memory", "cannot enable executable stack")
"""The message of the loader of shared libraries when memory runs out."""

_OBJECTS_PER_COLLECTION = 500_000
"""New objects after which garbage is looked for. Python's own 700 cost a start 0.1 s and a conversion of vit_tiny 1.3 s
more than these, and 50,000 cost a check of 200 nodes 0.07 s; peak memory was the same."""


def prepare() -> None:
    """Make this process, which is a command's, start quickly. Calling it again changes nothing."""
    if not any(isinstance(finder, DeferringFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, DeferringFinder())
        atexit.register(gc.freeze)  # what is left goes with the process; looking through it took 1 s of a sweep
    if logging.lastResort is not None:  # what is logged where a command has set up no log of its own
        logging.lastResort.setFormatter(VisibleFormatter())
    gc.set_threshold(_OBJECTS_PER_COLLECTION, *gc.get_threshold()[1:])


def command(module: str, function: str = "main") -> Callable[[], None]:
    """A console script: prepares the process, then imports ``module`` and calls its ``function``."""

    def run() -> None:
        prepare()
        try:
            getattr(import_module(module), function)()
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] not in PAGES:
                raise
            sys.stderr.write(f"Error: writing pages needs the package {error.name}: {INSTALL_PAGES}\n")
            raise SystemExit(MissingError.exit_code) from error
        except ImportError as error:
            if not any(words in str(error) for words in _NOT_LOADED):
                raise
            sys.stderr.write(f"Error: {NO_MEMORY}\n")
            raise SystemExit(PtqlabError.exit_code) from error
        except MemoryError as error:
            sys.stderr.write(f"Error: {NO_MEMORY}\n")
            raise SystemExit(PtqlabError.exit_code) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            sys.stderr.write(f"Error: {visible(system_message(error))}\n")
            raise SystemExit(PtqlabError.exit_code) from error

    return run


hb_mapper = command("engine.cli.vendor.hb_mapper")
hb_compile = command("engine.cli.vendor.hb_compile")
hmct_debugger = command("engine.cli.vendor.hmct_debugger")
hb_perf = command("engine.cli.vendor.hb_perf")
hb_pack = command("engine.cli.vendor.hb_pack")
hb_model_info = command("engine.cli.vendor.hb_model_info")
hb_model_modifier = command("engine.cli.vendor.hb_model_modifier")
hb_model_verifier = command("engine.cli.vendor.hb_verifier", "model_main")
hb_verifier = command("engine.cli.vendor.hb_verifier")
hrt_model_exec = command("engine.cli.vendor.hrt_model_exec")
vec_diff = command("engine.cli.vendor.vec_diff")
