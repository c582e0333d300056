"""Sessions under load: ``python -m tests.faults.sessions --sessions 500 --runs 20000``.

Threads share a session, processes are forked and spawned from one that has used it, sessions come and go. Exit code 1:
other bits than a first run's, or more resident memory than 5 MB above what it was after the warm-up.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.simulate import Session
from tests.golden_cases import BUNDLED

MODEL = BUNDLED / "conversions" / "res.quant.onnx"
MOST_GROWTH = 5_000_000
"""Bytes."""

WARM_UP = 300
"""Sessions after which the memory of a process stays as it is: the allocator keeps what the first ones gave back."""

Outputs = dict[str, NDArray[np.float32]]


def feed_of(session: Session, seed: int) -> dict[str, NDArray[np.float32]]:
    """One sample for ``session``."""
    rng = np.random.default_rng(seed)
    return {info.name: rng.normal(size=info.shape).astype(info.dtype) for info in session.inputs}


def digest(outputs: Outputs) -> bytes:
    """All bits of ``outputs``."""
    return b"".join(np.ascontiguousarray(outputs[name]).tobytes() for name in sorted(outputs))


def threads_agree(session: Session, threads: int, runs: int) -> bool:
    """Whether ``threads`` that share ``session`` get the bits of one."""
    feeds = [feed_of(session, seed) for seed in range(threads)]
    alone = [digest(session.run(feed)) for feed in feeds]
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda index: digest(session.run(feeds[index % threads])), range(runs)))
    return all(bits == alone[index % threads] for index, bits in enumerate(found))


def run_once(seed: int) -> bytes:
    """The bits of one run of a new session, in whatever process this is called."""
    session = Session(MODEL)
    return digest(session.run(feed_of(session, seed)))


def processes_agree(way: str) -> bool:
    """Whether processes made in the ``way`` of multiprocessing get the bits of this one."""
    expected = [run_once(seed) for seed in range(4)]
    with multiprocessing.get_context(way).Pool(2) as pool:
        return pool.map(run_once, range(4)) == expected


def resident() -> int:
    """Resident bytes of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all of it; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.sessions", description=__doc__)
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--runs", type=int, default=20_000)
    chosen = parser.parse_args(arguments)
    session, faults = Session(MODEL), []
    if not threads_agree(session, 8, 200):
        faults.append("8 threads on one session get other bits")
    faults += [f"processes by {way} get other bits" for way in ("fork", "spawn") if not processes_agree(way)]
    feed = feed_of(session, 0)
    expected = digest(session.run(feed))
    for _ in range(WARM_UP):
        Session(MODEL).run(feed)
    before = resident()
    if any(digest(Session(MODEL).run(feed)) != expected for _ in range(chosen.sessions)):
        faults.append("a later session gets other bits")
    after_sessions = resident()
    if any(digest(session.run(feed)) != expected for _ in range(chosen.runs)):
        faults.append("a later run gets other bits")
    growth = [after_sessions - before, resident() - after_sessions]
    if max(growth) > MOST_GROWTH:
        faults.append("memory grows")
    sys.stdout.write("".join(f"{fault}\n" for fault in faults))
    sys.stdout.write(
        f"{chosen.sessions} sessions: {growth[0] / 1e6:+.1f} MB, {chosen.runs} runs: {growth[1] / 1e6:+.1f} MB, "
        f"{len(faults)} faults, {time.process_time() / 60:.1f} CPU minutes\n"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
