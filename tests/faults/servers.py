"""Sweeps whose MLflow server misbehaves: ``python -m tests.faults.servers [FAULT …] --trials 40``.

The server keeps its store in PostgreSQL and stands behind a proxy. Under every fault a sweep runs; where its record is
not complete, ``sync`` completes it once the server is well. Exit code 1: a trial is missing or there twice, a figure
differs, or the sweep took more than 1.1 times as long as the mean of those before and after it, with a server that is
well: what else runs on the machine changes their times.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from harness.execution.coordinator import Plan, processes
from harness.files.strict_yaml import parse
from harness.report.results import Sweep
from harness.suites.suite import Suite
from harness.sweeps.sweep import run_suite
from harness.tracking.mlflow_store import connect
from harness.tracking.sync import pending, replay
from harness.trials.tasks import Bench
from harness.trials.trial import TrialSpec
from tests.e2e.postgres import Postgres, free_port, postgres
from tests.e2e.test_mlflow_server import server
from tests.harness import fakes

SUITE = parse({"name": "faults", "version": 1, "models": "net", "sweep": {}}, Suite, "x")
LONGER = 1.1
WORKERS = 2


@dataclass
class Proxy:
    """Hands calls on to ``target``, or does not.

    Attributes:
        target: address of the server.
        every: each so many-th call is answered with 500; 0 for none.
        forwards: whether the server sees those all the same.
        delay: seconds before a call is handed on.
    """

    target: str
    every: int = 0
    forwards: bool = False
    delay: float = 0.0
    calls: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes, str]:
        """Status, content and its type."""
        with self._lock:
            self.calls += 1
            fails = self.every and self.calls % self.every == 0
        time.sleep(self.delay)
        found = (500, b"{}", "application/json")
        if not fails or self.forwards:
            kept = {name: value for name, value in headers.items() if name.lower() not in ("host", "connection")}
            request = urllib.request.Request(self.target + path, data=body or None, headers=kept, method=method)
            try:
                with urllib.request.urlopen(request, timeout=60) as reply:
                    found = (reply.status, reply.read(), reply.headers.get("Content-Type", ""))
            except urllib.error.HTTPError as error:
                found = (error.code, error.read(), error.headers.get("Content-Type", ""))
            except OSError:
                found = (503, b"{}", "application/json")
        return (500, b"{}", "application/json") if fails else found


@contextmanager
def listening(proxy: Proxy) -> Iterator[str]:
    """Address of the proxy."""

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, content, kind = proxy.answer(self.command, self.path, dict(self.headers), body)
            try:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:  # whoever asked has not waited
                return

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815 - names of the base class

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    threading.Thread(target=made.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{made.server_address[1]}"
    finally:
        made.shutdown()
        made.server_close()


def trials(count: int, model: str) -> list[TrialSpec]:
    """So many trials of one of :mod:`tests.harness.fakes`' models."""
    return [fakes.spec(model, calibration_samples=index + 1) for index in range(count)]


def sweep(workdir: Path, uri: str, specs: Sequence[TrialSpec]) -> tuple[Sweep, float]:
    """A sweep of ``specs`` and its seconds."""
    plan = Plan(bench=Bench(workdir), executor=processes, workers=WORKERS, stages="tests.harness.fakes")
    begun = time.monotonic()
    return run_suite(SUITE, plan, specs=specs, tracking_uri=uri), time.monotonic() - begun


class Running:
    """A sweep in a thread, a third of it done when this returns."""

    def __init__(self, work: Path, uri: str, specs: Sequence[TrialSpec]) -> None:
        self._result: list[tuple[Sweep, float]] = []
        self._thread = threading.Thread(target=lambda: self._result.append(sweep(work, uri, specs)))
        self._thread.start()
        time.sleep(max(2.0, len(specs) / 4))

    def result(self) -> tuple[Sweep, float]:
        """The sweep and its seconds, once it has ended."""
        self._thread.join()
        return self._result[0]


def wrong_with(uri: str, sweep_id: str, specs: Sequence[TrialSpec]) -> list[str]:
    """What is wrong with the record of a sweep of ``specs`` that all succeeded."""
    client = connect(uri)
    experiment = client.get_experiment_by_name(SUITE.name)
    if experiment is None:
        return ["there is no experiment"]
    runs = client.search_runs([experiment.experiment_id], f"tags.`lab.sweep` = '{sweep_id}'", max_results=1000)
    found: dict[str, list[Any]] = {}
    for run in runs:
        found.setdefault(run.data.tags.get("lab.trial_key", "sweep"), []).append(run)
    wrong = [f"{key} is there {len(each)} times" for key, each in found.items() if len(each) > 1]
    wrong += [f"{spec.key} is not there" for spec in specs if spec.key not in found]
    wrong += [] if "sweep" in found else ["the sweep is not there"]
    for spec in specs:
        for run in found.get(spec.key, [])[:1]:
            if run.data.metrics.get("accuracy") != 0.9 or run.info.status != "FINISHED":
                wrong.append(f"{spec.key}: {run.info.status}, {run.data.metrics}")
            if not client.list_artifacts(run.info.run_id):
                wrong.append(f"{spec.key} has no files")
    return wrong


FAULTS = ("away", "slow", "500 before", "500 after", "restarted", "database restarted")


def tried(fault: str, folder: Path, database: Postgres, specs: Sequence[TrialSpec]) -> tuple[list[str], float]:
    """What is wrong after a sweep under ``fault`` and, where it needs it, its sync; seconds of the sweep."""
    port, work = free_port(), folder / fault / "work"
    store = folder / "server"
    proxy = Proxy(f"http://127.0.0.1:{port}")
    with listening(proxy) as uri:
        if fault == "away":
            made, seconds = sweep(work, uri, specs)
        elif fault == "restarted":
            with server(store, port, database.uri):
                running = Running(work, uri, specs)
            time.sleep(3)
            with server(store, port, database.uri):
                made, seconds = running.result()
        elif fault == "database restarted":
            with server(store, port, database.uri):
                running = Running(work, uri, specs)
                database.stop()
                time.sleep(3)
                database.start()
                made, seconds = running.result()
        else:
            proxy.delay = 30.0 if fault == "slow" else 0.0
            proxy.every = 3 if fault.startswith("500") else 0
            proxy.forwards = fault == "500 after"
            with server(store, port, database.uri):
                made, seconds = sweep(work, uri, specs)
        proxy.delay, proxy.every = 0.0, 0
        with server(store, port, database.uri):
            kept = pending(work)
            wrong = [] if bool(kept) == (made.record_problem is not None) else ["the record is lost"]
            for each in kept:
                replay(each, work)
            return [*wrong, *wrong_with(uri, made.summary.id, specs)], seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sweep under every fault; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.servers", description=__doc__)
    parser.add_argument("faults", nargs="*", choices=[*FAULTS, []], default=[])
    parser.add_argument("--trials", type=int, default=40, help="of 1.5 s each, two at a time")
    chosen = parser.parse_args(arguments)
    specs, bad = trials(chosen.trials, "slow"), 0
    with tempfile.TemporaryDirectory() as root, postgres() as database:
        tried("warm", Path(root), database, specs[:WORKERS])
        wells = [tried("well", Path(root), database, specs)]
        for number, fault in enumerate(chosen.faults or FAULTS):
            wrong, seconds = tried(fault, Path(root), database, specs)
            wells.append(tried(f"well {number}", Path(root), database, specs))
            undisturbed = (wells[-2][1] + wells[-1][1]) / 2
            wrong += wells[-1][0]
            if seconds > LONGER * undisturbed:
                wrong.append(f"it took {seconds / undisturbed:.2f} times as long as with a server that is well")
            beside = f"{seconds / undisturbed:.2f} times {wells[-2][1]:.1f} and {wells[-1][1]:.1f} s"
            sys.stdout.write(f"{fault}: {seconds:.1f} s, {beside}\n")
            sys.stdout.write("".join(f"  FAULT {each}\n" for each in wrong))
            sys.stdout.flush()
            bad += bool(wrong)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    sys.stdout.write(f"{bad} with faults, {sum(each.ru_utime + each.ru_stime for each in used) / 60:.1f} CPU minutes\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
