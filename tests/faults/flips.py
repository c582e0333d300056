"""Kept files with one bit flipped: ``python -m tests.faults.flips --regions 16 --rounds 4 --seed 1``.

A conversion, a night and a sweep leave what they keep. Every such file is cut into regions of equal length; in each one
bit is flipped, and its reader must notice. Then, ``--rounds`` times, one file of every kind is damaged at once, and
the commands run again: they must say what is damaged, and give what they gave before. Exit code 1: they do not.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from engine.errors import ConfigError
from harness.files.cache import Cache, load_json
from harness.gates.nights import read_nights
from harness.report.results import SweepSummary
from harness.tracking.sync import PendingRecord
from harness.trials.origins import kept_environment
from harness.trials.trial import TrialStore
from tests.faults.setting import prepare, results, run

Noticed = Callable[[Path], bool]
"""Whether the reader of a file notices that it is damaged, rather than hand on what it holds."""


def _refuses(read: Callable[[Path], object]) -> Noticed:
    def noticed(path: Path) -> bool:
        try:
            read(path)
        except (ConfigError, ValueError):
            return True
        return False

    return noticed


def _cached(path: Path) -> bool:
    result = path.with_name(path.name.removesuffix(".sha256"))
    return not Cache(path.parents[1]).has(result)


def _night(path: Path) -> bool:
    with suppress(ConfigError):
        read_nights(path.parent)
        return False
    return True


READERS: Mapping[str, Noticed] = {
    "work/cache/*/[!.]*": _cached,
    "work/trials/*/*": lambda path: not TrialStore(path.parents[1]).is_whole(path.parent.name),
    "work/sweeps/*/sweep.json": _refuses(lambda path: load_json(SweepSummary, path)),
    "work/sweeps/*/nights.jsonl": _night,
    "work/environments/*.json": lambda path: kept_environment(path.stem, path.parents[1]) is None,
    "work/unsynced/*/record.json": _refuses(lambda path: load_json(PendingRecord, path)),
}
"""What is kept, by place, with its reader."""


def flipped(content: bytes, regions: int, rng: random.Random) -> Iterator[bytes]:
    """``content`` with one bit flipped, once in each of so many regions of equal length, or in each byte."""
    cuts = sorted({len(content) * index // regions for index in range(regions + 1)})
    for start, stop in pairwise(cuts):
        damaged = bytearray(content)
        damaged[rng.randrange(start, stop)] ^= 1 << rng.randrange(8)
        yield bytes(damaged)


def unnoticed(folder: Path, regions: int, rng: random.Random, tried: Counter[str]) -> list[str]:
    """Flips that no reader noticed; ``tried`` counts flips by place."""
    faults = []
    for pattern, noticed in READERS.items():
        for path in sorted(folder.glob(pattern)):
            content, times = path.read_bytes(), path.stat()
            for damaged in flipped(content, regions, rng):
                tried[pattern] += 1
                path.write_bytes(damaged)
                if not noticed(path):
                    place = next(at for at, (a, b) in enumerate(zip(content, damaged, strict=True)) if a != b)
                    faults.append(f"{path.relative_to(folder)}: a bit of byte {place} of {len(content)}")
            path.write_bytes(content)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            if noticed(path):
                faults.append(f"{path.relative_to(folder)}: is whole and counts as damaged")
    return faults


RERUN = ("makertbin", "run")
"""Commands that compute anew what was damaged."""
COMPUTED = ("work/cache/*/[!.]*", "work/trials/*/*", "work/environments/*.json")
"""What they compute; a sweep's summary and nights are history."""


def rerun(folder: Path, whole: dict[str, object], rng: random.Random) -> list[str]:
    """Damage one file of every kind and of every trial, run again and compare."""
    damaged = []
    for pattern in COMPUTED:
        groups: dict[Path, list[Path]] = {}
        for path in sorted(folder.glob(pattern)):
            groups.setdefault(path.parent, []).append(path)
        for paths in groups.values():
            path = rng.choice(paths)
            path.write_bytes(next(flipped(path.read_bytes(), 1, rng)))
            damaged.append(path)
    faults, said = [], ""
    for command in RERUN:
        code, output = run(command, folder)
        said += output
        if code or "Traceback" in output:
            faults.append(f"{command}: exit code {code}: {output[-1500:]}")
    if "damaged" not in said:
        faults.append("nobody was told of the damage")
    found = results(folder)
    for name in sorted(whole.keys() | found.keys()):
        if found.get(name) != whole.get(name):
            faults.append(f"{name} differs after {[path.relative_to(folder).as_posix() for path in damaged]}")
    return faults


def main(arguments: Sequence[str] | None = None) -> int:
    """Flip bits; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.flips", description=__doc__)
    parser.add_argument("--regions", type=int, default=16, help="of each file")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    rng, tried = random.Random(chosen.seed), Counter[str]()
    with tempfile.TemporaryDirectory() as root:
        folder = prepare(Path(root) / "place")
        for command in ("makertbin", "nightly", "run"):
            run(command, folder)
        (folder / "work" / "mlflow.db").rename(folder / "work" / "away.db")
        (folder / "work" / "mlflow.db").mkdir()
        run("run", folder)  # cannot be recorded, and is kept for later
        (folder / "work" / "mlflow.db").rmdir()
        (folder / "work" / "away.db").rename(folder / "work" / "mlflow.db")
        faults = unnoticed(folder, chosen.regions, rng, tried)
        faults += [f"there is no {pattern}" for pattern in READERS if not tried[pattern]]
        run("makertbin", folder)
        run("run", folder)
        whole = results(folder)
        for _ in range(chosen.rounds):
            faults += rerun(folder, whole, rng)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    minutes = sum(each.ru_utime + each.ru_stime for each in used) / 60
    sys.stdout.write("".join(f"{fault}\n" for fault in faults))
    sys.stdout.write("".join(f"{pattern}: {count} flips\n" for pattern, count in tried.items()))
    total = f"{tried.total()} flips, {chosen.rounds} reruns, {len(faults)} faults"
    sys.stdout.write(f"{total}, {minutes:.1f} CPU minutes\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
