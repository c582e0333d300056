"""One campaign: a reader is fed with changed files until its CPU time is used up or something falls."""

from __future__ import annotations

import json
import logging
import os
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import ROOT
from tests.fuzz.mutate import LONGEST, mutated

if TYPE_CHECKING:
    from tests.fuzz.loaders import Loader

HANG_SECONDS = 10
"""CPU time for one file."""
EXTRA_MEMORY_BYTES = 2 << 30
CORPUS_LIMIT = 500

INSTRUMENTED = (
    "engine.calibrate.data.sources",
    "engine.cli",
    "engine.compile",
    "engine.config",
    "engine.frontend",
    "engine.ir",
)
"""Modules that coverage is collected of, with what they read by; not those with compiled kernels."""
INSTRUMENTED_LIBRARIES = ("yaml", "google.protobuf.text_format")

CHANGES = {"os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink"}
"""Events of a changed folder; the last argument is the descriptor that the paths are relative to, or -1."""

FORBIDDEN = {"os.exec", "os.fork", "os.posix_spawn", "os.system", "socket.connect", "subprocess.Popen"}


@dataclass
class Figures:
    """What a campaign did.

    Attributes:
        loader: name of the reader.
        mutations: ``random``, or ``coverage``: guided by it.
        seeds: valid files that it began with.
        minutes: CPU time of the campaign.
        runs: files tried.
        accepted: files that were read.
        slowest_seconds: most CPU time for one file.
        memory_mib: largest resident memory of the process.
        fault: what went wrong; empty: nothing.
    """

    loader: str
    mutations: str = ""
    seeds: int = 0
    minutes: float = 0.0
    runs: int = 0
    accepted: int = 0
    slowest_seconds: float = 0.0
    memory_mib: int = 0
    fault: str = ""


@dataclass
class Campaign:
    """A reader, its budget and what came of it so far.

    Attributes:
        loader: the reader.
        minutes: CPU time to spend.
        folder: holds the last file, ``input``, the figures, and all that the reader may write.
        figures: counted as the campaign goes.
    """

    loader: Loader
    minutes: float
    folder: Path
    figures: Figures
    begin: float = field(default_factory=time.process_time)

    @property
    def over(self) -> bool:
        """Whether the CPU time is used up or something fell."""
        return bool(self.figures.fault) or time.process_time() - self.begin > 60 * self.minutes

    def feed(self, content: bytes) -> bool:
        """Let the reader read ``content``; whether it accepted it."""
        (self.folder / "input").write_bytes(content)
        start, accepted = time.process_time(), False
        signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
        try:
            accepted = self.loader.accepts(content, self.folder / "work")
        except BaseException:  # noqa: BLE001 - whatever a reader raises beside PtqlabError is a finding
            self.figures.fault = traceback.format_exc()
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.figures.runs += 1
        self.figures.accepted += accepted
        self.figures.slowest_seconds = max(self.figures.slowest_seconds, time.process_time() - start)
        return accepted

    def write_figures(self) -> None:
        """Leave the figures in the folder."""
        self.figures.minutes = (time.process_time() - self.begin) / 60
        self.figures.memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        (self.folder / "figures.json").write_text(json.dumps(asdict(self.figures)))


def run(name: str, mutations: str, minutes: float, seed: int, corpora: list[Path], folder: Path) -> None:
    """Feed changed files to the reader ``name``, in a process of its own; figures and the last file stay in ``folder``.

    Args:
        name: of a reader.
        mutations: ``random``, or ``coverage``: those that reach new code are changed further (needs ``atheris``).
        minutes: CPU time.
        seed: of the random numbers.
        corpora: folders whose files of this kind, of at most :data:`LONGEST` bytes, are begun from as well.
        folder: an empty folder; the reader must not write elsewhere.
    """
    logging.disable()
    with _instrumented(mutations):
        from tests.fuzz.loaders import LOADERS
    loader = LOADERS[name]
    files = [path for corpus in corpora for path in sorted(corpus.rglob("*")) if path.name.endswith(loader.suffixes)]
    seeds = [*loader.seeds, *(path.read_bytes() for path in files if path.stat().st_size <= LONGEST)]
    for content in loader.seeds:
        loader.accepts(content, folder / "work")  # imports and caches open their files before they are watched
    _limit_memory()
    _watch_files(folder)
    signal.signal(signal.SIGPROF, _hang)
    warnings.simplefilter("error", RuntimeWarning)  # numpy's are none of a user's business
    campaign = Campaign(loader, minutes, folder, Figures(name, mutations, len(seeds)))
    for content in seeds:
        campaign.feed(content)
    (_guided if mutations == "coverage" else _random)(campaign, seeds, seed)
    campaign.write_figures()


def _random(campaign: Campaign, seeds: list[bytes], seed: int) -> None:
    rng, corpus = random.Random(seed), list(seeds)
    while not campaign.over:
        content = mutated(rng.choice(corpus), campaign.loader.words, rng)
        if campaign.feed(content) and len(corpus) < len(seeds) + CORPUS_LIMIT:
            corpus.append(content)


def _guided(campaign: Campaign, seeds: list[bytes], seed: int) -> None:
    """Does not return: libFuzzer ends the process."""
    import atheris

    corpus = campaign.folder / "corpus"
    corpus.mkdir()
    for index, content in enumerate(seeds):
        (corpus / str(index)).write_bytes(content)

    def one(content: bytes) -> None:
        campaign.feed(content)
        if campaign.over:
            campaign.write_figures()
            os._exit(1 if campaign.figures.fault else 0)

    def mutate(content: bytes, longest: int, number: int) -> bytes:
        rng = random.Random(number)
        if rng.random() < 0.5:
            return bytes(atheris.Mutate(content, longest))
        return mutated(content, campaign.loader.words, rng)[:longest]

    options = [
        f"-max_len={LONGEST}",
        "-len_control=0",
        "-timeout=86400",  # wall time; what counts is CPU time, which :meth:`Campaign.feed` limits
        f"-artifact_prefix={campaign.folder}/",
        "-rss_limit_mb=0",
        f"-seed={seed + 1}",
        "-verbosity=0",
    ]
    atheris.Setup([campaign.loader.name, *options, str(corpus)], one, custom_mutator=mutate)
    atheris.Fuzz()


@contextmanager
def _instrumented(mutations: str) -> Iterator[None]:
    """Collect the coverage of what is imported inside, for guided campaigns."""
    if mutations != "coverage":
        yield
        return
    import atheris

    with atheris.instrument_imports(include=[*INSTRUMENTED, *INSTRUMENTED_LIBRARIES]):
        yield


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + EXTRA_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _watch_files(folder: Path) -> None:
    """Raise where a file outside ``folder`` is touched, save reading those of Python, its packages and this project.

    So does starting a program or a connection.
    """
    writable = os.path.realpath(folder)
    readable = tuple(os.path.realpath(path) for path in (folder, sys.prefix, sys.base_prefix, ROOT))

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in FORBIDDEN:
            raise AssertionError(f"{event} {arguments}")
        if event in CHANGES:
            paths = [_absolute(path, arguments[-1]) for path in arguments if isinstance(path, str | bytes)]
            if not all(_inside(path, (writable,)) or "__pycache__" in path for path in paths):
                raise AssertionError(f"{event} of {paths}")
        if event == "open" and isinstance(arguments[0], str | bytes):
            writes = _writes(arguments[1], arguments[2])
            compiled = "__pycache__" in os.fsdecode(arguments[0])  # kernels, when they are first needed
            if not (compiled or _inside(arguments[0], (writable,) if writes else readable)):
                raise AssertionError(f"{arguments[0]!r} was opened {'for writing' if writes else 'for reading'}")

    sys.addaudithook(watch)


def _writes(mode: object, flags: object) -> bool:
    if mode is None:
        return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return bool(set(str(mode)) & set("wax+"))


def _absolute(path: str | bytes, base: object) -> str:
    """``path``, relative to the folder of descriptor ``base``."""
    relative = isinstance(base, int) and base >= 0
    return os.path.join(os.readlink(f"/proc/self/fd/{base}") if relative else "", os.fsdecode(path))


def _inside(path: str | bytes, folders: tuple[str, ...]) -> bool:
    real = os.path.realpath(os.fsdecode(path))
    return any(real == folder or real.startswith(folder + os.sep) for folder in folders)


def _hang(*_: object) -> None:
    raise AssertionError(f"no result after {HANG_SECONDS} s of CPU time")
