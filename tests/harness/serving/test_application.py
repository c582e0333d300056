"""The server: pages, files of sweeps, and what it does not give away."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.serving.application import application
from harness.sweeps.resuming import Running, begin


def ask(workdir: Path, path: str, host: str = "127.0.0.1:8765", method: str = "GET") -> tuple[int, dict[str, str], str]:
    """Status, headers and body that the application answers."""
    sent: list[dict[str, Any]] = []

    asked = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not asked:
            await asyncio.Event().wait()  # the browser stays
        return asked.pop()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", host.encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8765),
    }
    asyncio.run(application(workdir)(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]).decode()


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    begin(Running(suite="mine", asked="mine", started_at="2026-01-03T02:00", trials=()), tmp_path)
    (tmp_path / "sweeps" / "mine" / "report.html").write_text("<p>page</p>")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "sweeps" / "mine" / "link").symlink_to(tmp_path / "secret")
    return tmp_path


def test_the_first_page_lists_suites_and_asks_again_while_one_runs(workdir: Path) -> None:
    status, headers, text = ask(workdir, "/")
    assert status == 200
    assert "let running = true" in text
    assert 'href="/sweeps/mine/report.html"' in text
    assert headers["content-security-policy"] == "frame-ancestors 'none'"
    assert "connect-src &#39;self&#39;" in text


def test_without_sweeps_it_says_what_to_run(tmp_path: Path) -> None:
    status, _, text = ask(tmp_path, "/")
    assert (status, "ptqlab run smoke" in text, "let running = false" in text) == (200, True, True)


def test_files_of_sweeps_are_given(workdir: Path) -> None:
    status, headers, text = ask(workdir, "/sweeps/mine/report.html")
    assert (status, text, headers["cache-control"]) == (200, "<p>page</p>", "no-cache")


@pytest.mark.parametrize(
    "path", ["/sweeps/../secret", "/sweeps/mine/../../secret", "/sweeps/mine/link", "/sweeps/%2e%2e/secret", "/secret"]
)
def test_nothing_outside_of_sweeps_is_given(workdir: Path, path: str) -> None:
    status, _, text = ask(workdir, path)
    assert status == 404
    assert "secret" not in text


def test_a_browser_that_asks_for_an_icon_is_told_that_there_is_none(workdir: Path) -> None:
    assert ask(workdir, "/favicon.ico")[0] == 204


def test_other_hosts_and_writing_are_refused(workdir: Path) -> None:
    assert ask(workdir, "/", host="evil.example")[0] == 400
    assert ask(workdir, "/", host="localhost:1")[0] == 200
    assert ask(workdir, "/sweeps/mine/report.html", method="PUT")[0] == 405


def test_names_are_text(tmp_path: Path) -> None:
    name = "<script>alert(1)"
    begin(Running(suite=name, asked=name, started_at="2026-01-03T02:00", trials=()), tmp_path)
    text = ask(tmp_path, "/")[2]
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)" in text
