"""Commands on machines that lack something: ``python -m tests.faults.machines [FAULT …] --rounds 1 --seed 1``.

Every command runs under every fault, and again without it where it failed. It must end by itself; with exit code 0 it
must have given what an undisturbed run gives; else it must say why in words, leave nothing half-written, and the rerun
must give it. Disks are file systems in memory, which only root can mount; for others the size of files is limited.
Exit code 1: something else happened.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.setting import Whole, left_running, prepare, results, run

MEGABYTE = 2**20
COMMANDS = ("makertbin", "hb_perf", "run", "nightly", "show", "accept", "sync", "tune")
BEGUN = ("hb_perf", "show", "accept", "sync")
FIRST = {"accept": "run"}
"""What commands do first: accept judges the sweep by the new baseline only when that is written."""
"""Commands that need what others gave."""

WORDS = ("ERROR", "Error", "error:", "WARNING", "cannot be", "killed")
"""One of these is in what a command says that fails."""

NO_LOCKS = """
import errno, fcntl, os
def flock(*_):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
fcntl.flock = fcntl.lockf = flock
"""
"""A module that Python imports at its start (``sitecustomize``): locks as on a network file system without them."""


@dataclass
class Disturbed:
    """How a command is to run.

    Attributes:
        more: environment.
        options: of the process.
        meanwhile: called with the folder in another thread.
    """

    more: dict[str, str] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)
    meanwhile: Callable[[Path], None] | None = None


Fault = Callable[[Path, random.Random], Iterator[Disturbed]]


def limited(kind: int, limit: int) -> Disturbed:
    """A process, and what it starts, that may use so much of a resource."""
    return Disturbed(options={"preexec_fn": lambda: resource.setrlimit(kind, (limit, limit))})


def full_disk(folder: Path, rng: random.Random) -> Iterator[Disturbed]:
    """So many bytes are free, none at the least."""
    free = rng.choice([0, 4096, 65536, 2**18, MEGABYTE, 4 * MEGABYTE])
    if os.geteuid():
        yield limited(resource.RLIMIT_FSIZE, free)
        return
    taken = sum(path.stat().st_blocks * 512 for path in folder.rglob("*"))
    with _mounted(folder, f"size={taken + free + 4096}"):
        yield Disturbed()


def read_only(folder: Path, rng: random.Random) -> Iterator[Disturbed]:
    """Nothing in the folder can be written; needs root."""
    del rng
    with _mounted(folder, "size=1g"):
        subprocess.run(["/usr/bin/mount", "-o", "remount,ro", str(folder)], check=True)
        yield Disturbed()
        subprocess.run(["/usr/bin/mount", "-o", "remount,rw", str(folder)], check=True)


@contextmanager
def _mounted(folder: Path, options: str) -> Iterator[None]:
    """``folder`` on a file system in memory, for the time; what is there then is in the folder afterwards."""
    aside = folder.with_name("aside")
    shutil.copytree(folder, aside, symlinks=True)
    subprocess.run(["/usr/bin/mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        shutil.copytree(aside, folder, dirs_exist_ok=True, symlinks=True)
        yield
        shutil.rmtree(aside)
        shutil.copytree(folder, aside, symlinks=True)
    finally:
        subprocess.run(["/usr/bin/umount", "--lazy", str(folder)], check=True)
        shutil.rmtree(folder)
        aside.rename(folder)


def few_files(folder: Path, rng: random.Random) -> Iterator[Disturbed]:
    """So many files may be open at a time."""
    del folder
    yield limited(resource.RLIMIT_NOFILE, rng.choice([6, 8, 12, 16, 24, 32]))


def little_memory(folder: Path, rng: random.Random) -> Iterator[Disturbed]:
    """So much address space may be used."""
    del folder
    yield limited(resource.RLIMIT_AS, rng.choice([200, 400, 700, 1000, 1500, 2500]) * MEGABYTE)


def clock_backwards(folder: Path, rng: random.Random) -> Iterator[Disturbed]:
    """The clock is ten days behind that of the files (package ``faketime``)."""
    del folder, rng
    library = next(Path("/usr/lib").rglob("faketime/libfaketime.so.1"), None)
    if library is None:
        raise FileNotFoundError("it needs libfaketime (apt-get install faketime)")
    yield Disturbed({"LD_PRELOAD": str(library), "FAKETIME": "-10d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"})


def folder_deleted(folder: Path, rng: random.Random) -> Iterator[Disturbed]:
    """Where results go is removed at some moment."""
    del folder
    moment = rng.uniform(0, 10)

    def remove(place: Path) -> None:
        time.sleep(moment)
        for name in ("work", "out"):
            shutil.rmtree(place / name, ignore_errors=True)

    yield Disturbed(meanwhile=remove)


def twice(folder: Path, rng: random.Random) -> Iterator[Disturbed]:
    """The same command runs beside it; see :func:`tried`."""
    del folder, rng
    yield Disturbed(more={"TWICE": "1"})


def no_locks(folder: Path, rng: random.Random) -> Iterator[Disturbed]:
    """The file system has no locks."""
    del rng
    place = folder.with_name("nolocks")
    place.mkdir(exist_ok=True)
    (place / "sitecustomize.py").write_text(NO_LOCKS)
    root = Path(__file__).resolve().parents[2]
    yield Disturbed({"PYTHONPATH": f"{place}{os.pathsep}{root}"})


FAULTS: Mapping[str, Fault] = {
    "full disk": full_disk,
    "read-only": read_only,
    "few files": few_files,
    "little memory": little_memory,
    "clock backwards": clock_backwards,
    "folder deleted": folder_deleted,
    "two at once": twice,
    "no locks": no_locks,
}


def tried(command: str, folder: Path, disturbed: Disturbed) -> list[tuple[int, str]]:
    """Exit codes and outputs of ``command`` under a fault."""
    other = folder.with_name("elsewhere")
    other.mkdir(exist_ok=True)
    more = {"TMPDIR": str(other), "XDG_CACHE_HOME": str(other), **disturbed.more}
    ended: list[tuple[int, str]] = []

    def once() -> None:
        ended.append(run(command, folder, more, **disturbed.options))

    others = [threading.Thread(target=once)] if "TWICE" in more else []
    if disturbed.meanwhile is not None:
        others.append(threading.Thread(target=disturbed.meanwhile, args=(folder,)))
    for thread in others:
        thread.start()
    once()
    for thread in others:
        thread.join()
    return ended


def faults_of(
    command: str, fault: Fault, ready: Path, folder: Path, whole: Whole, rng: random.Random
) -> tuple[list[str], list[tuple[int, str]]]:
    """What is wrong with ``command`` under ``fault``; exit codes and last lines."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ready, folder)
    wrong, deleted = [], False
    with contextmanager(fault)(folder, rng) as disturbed:
        ended = tried(command, folder, disturbed)
        deleted = disturbed.meanwhile is not None
    for code, output in ended:
        if "Traceback" in output:
            wrong.append(f"exit code {code}, a traceback: {output[-2500:]}")
        elif code and not any(word in output for word in WORDS):
            wrong.append(f"exit code {code}, nothing said: {output[-500:]}")
        elif code and output.count("\n") > 60:
            wrong.append(f"exit code {code}, too many words: {output[:1500]}")
    if running := left_running(folder):
        wrong.append(f"these live on: {running}")
    found, before = results(folder), results(ready)
    wrong += [f"{name} is not whole" for name in whole.damaged(found) if found[name] != before.get(name)]
    good = any(code == 0 for code, _ in ended) and not deleted
    if not good:
        code, output = run(command, folder)
        if code and not deleted:
            wrong.append(f"the rerun ends with exit code {code}: {output[-800:]}")
        found = results(folder)
    if not (deleted and command in BEGUN):
        wrong += [f"{name} differs from an undisturbed run's" for name in whole.differing(found)]
    return wrong, [(code, output.strip().rpartition("\n")[2][:160]) for code, output in ended]


def readied(command: str, root: Path) -> tuple[Path, Whole]:
    """A folder in which ``command`` can begin, and what it gives undisturbed."""
    folder, ready = root / "place", root / f"ready {command}"
    shutil.rmtree(folder, ignore_errors=True)
    prepare(folder)
    if command in BEGUN:
        for needed in ("makertbin", "nightly"):
            run(needed, folder)
    shutil.copytree(folder, ready)
    runs, steps = [], []
    if command in FIRST:
        run(FIRST[command], folder)
        steps.append(results(folder))
        shutil.rmtree(folder)
        shutil.copytree(ready, folder)
    for _ in range(2):
        code, output = run(command, folder)
        if code:
            raise SystemExit(f"{command} fails undisturbed: {output}")
        runs.append(results(folder))
    return ready, Whole(tuple(runs), tuple(steps))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all commands under all faults; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.machines", description=__doc__)
    parser.add_argument("faults", nargs="*", choices=[*FAULTS, []], default=[])
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    count = bad = 0
    with tempfile.TemporaryDirectory() as root:
        for command in chosen.commands.split(","):
            ready, whole = readied(command, Path(root))
            for name in chosen.faults or FAULTS:
                rng = random.Random(f"{chosen.seed} {command} {name}")
                for _ in range(chosen.rounds):
                    try:
                        wrong, ended = faults_of(command, FAULTS[name], ready, Path(root) / "place", whole, rng)
                    except FileNotFoundError as error:
                        sys.stdout.write(f"{command}, {name}: not tried: {error}\n")
                        continue
                    count, bad = count + 1, bad + bool(wrong)
                    sys.stdout.write(f"{command}, {name}: {ended}\n" + "".join(f"  FAULT {each}\n" for each in wrong))
                    sys.stdout.flush()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes = (used.ru_utime + used.ru_stime) / 60
    sys.stdout.write(f"{count} cases, {bad} with faults, {minutes:.1f} CPU minutes\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
