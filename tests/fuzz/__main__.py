"""Fuzz campaign: ``python -m tests.fuzz --minutes 10 onnx``.

Mutated files are fed to a reader in a child process of limited memory; an audit hook watches which files it opens. A
crash, a hang, an error that is not ours or an access outside the given folder ends the campaign with exit code 1, and
the file that caused it is kept.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

from tests.conftest import ROOT
from tests.fuzz.loaders import LOADERS, Loader
from tests.fuzz.mutate import mutated

HANG_SECONDS = 10
EXTRA_MEMORY_BYTES = 2 << 30
CORPUS_LIMIT = 500


@dataclass
class Figures:
    """What a campaign did.

    Attributes:
        loader: name of the reader.
        minutes: CPU time of the child.
        runs: files tried.
        accepted: files that were read.
        slowest_seconds: longest time for one file.
        fault: what went wrong; empty: nothing.
    """

    loader: str
    minutes: float = 0.0
    runs: int = 0
    accepted: int = 0
    slowest_seconds: float = 0.0
    fault: str = ""


def main() -> int:
    """Run a campaign; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("loader", choices=list(LOADERS))
    parser.add_argument("--minutes", type=float, default=10.0, help="CPU time")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{arguments.loader}-"))
    child = get_context("fork").Process(
        target=campaign, args=(LOADERS[arguments.loader], arguments.minutes, arguments.seed, folder)
    )
    child.start()
    child.join()
    report = folder / "figures.json"
    figures = json.loads(report.read_text()) if report.exists() else asdict(Figures(arguments.loader))
    if child.exitcode and not figures["fault"]:
        figures["fault"] = f"the reader's process ended with {child.exitcode}"
    if figures["fault"]:
        figures["input"] = str(folder / "input")
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    return 1 if figures["fault"] else 0


def campaign(loader: Loader, minutes: float, seed: int, folder: Path) -> None:
    """Feed mutated files to ``loader`` for ``minutes`` of CPU time; figures and the last file stay in ``folder``."""
    logging.disable()
    rng, corpus, figures = random.Random(seed), list(loader.seeds), Figures(loader.name)
    _limit_memory()
    for content in loader.seeds:
        loader.accepts(content, folder / "work")  # imports and caches open their files before they are watched
    _watch_files(folder)
    signal.signal(signal.SIGALRM, _hang)
    begin = time.process_time()
    while not figures.fault and time.process_time() - begin < 60 * minutes:
        content = mutated(rng.choice(corpus), loader.words, rng)
        (folder / "input").write_bytes(content)
        start = time.monotonic()
        signal.alarm(HANG_SECONDS)
        try:
            accepted = loader.accepts(content, folder / "work")
        except BaseException:  # noqa: BLE001 - whatever a reader raises beside PtqlabError is a finding
            figures.fault, accepted = traceback.format_exc(), False
        signal.alarm(0)
        figures.runs += 1
        figures.accepted += accepted
        figures.slowest_seconds = max(figures.slowest_seconds, time.monotonic() - start)
        if accepted and len(corpus) < CORPUS_LIMIT:
            corpus.append(content)
    figures.minutes = (time.process_time() - begin) / 60
    (folder / "figures.json").write_text(json.dumps(asdict(figures)))


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + EXTRA_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _watch_files(folder: Path) -> None:
    """Raise where a file outside ``folder`` is opened, save those of Python, its packages and this project."""
    readable = tuple(os.path.realpath(path) for path in (folder, sys.prefix, sys.base_prefix, ROOT))
    writable = readable[0]

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes):
            return
        path, mode = os.path.realpath(os.fsdecode(arguments[0])), str(arguments[1] or "r")
        allowed = writable if set(mode) & set("wax+") else readable
        if not path.startswith(allowed):
            raise AssertionError(f"{path} was opened with mode {mode}")

    sys.addaudithook(watch)


def _hang(*_: object) -> None:
    raise AssertionError(f"no result after {HANG_SECONDS} s")


if __name__ == "__main__":
    sys.exit(main())
