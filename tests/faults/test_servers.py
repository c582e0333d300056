"""The proxy of :mod:`tests.faults.servers`, and a sweep whose server is away; the campaign has all faults."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.tracking.sync import pending
from tests.e2e.postgres import free_port
from tests.faults.servers import Proxy, listening, sweep, trials


@contextmanager
def counting() -> Iterator[tuple[str, list[str]]]:
    """Address of a server, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    made = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{made.server_address[1]}", asked
    finally:
        made.shutdown()
        made.server_close()


def status(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=20) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize(("forwards", "seen"), [(False, 4), (True, 6)])
def test_every_third_call_fails_before_or_after_the_server_saw_it(forwards: bool, seen: int) -> None:
    with counting() as (target, asked), listening(Proxy(target, every=3, forwards=forwards)) as address:
        assert [status(f"{address}/{index}") for index in range(6)] == [200, 200, 500, 200, 200, 500]
        assert len(asked) == seen


@pytest.mark.nightly
def test_a_server_that_is_away_costs_the_record_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    made, _ = sweep(tmp_path / "work", f"http://127.0.0.1:{free_port()}", trials(2, "net"))
    assert made.record_problem is not None
    assert [result.ok for result in made.results] == [True, True]
    assert len(pending(tmp_path / "work")) == 1
