"""Who is told of a verdict: CI systems and webhooks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ConfigError
from harness.gates.explanation import Explanation, TrialCauses
from harness.gates.judgement import Judgement
from harness.gates.verdicts import Check, TrialVerdict, Verdict
from harness.report.results import Sweep, sweep_folder
from harness.sweeps.announcing import GITLAB_FILE, check_webhook, message, tell_ci, tell_webhook
from tests.harness import fakes, finished


def sweep(verdict: Verdict = Verdict.REGRESSION) -> Sweep:
    spec = fakes.spec()
    judgement = Judgement(verdicts=(TrialVerdict(spec.id, (Check("cosine", verdict, "0.9, baseline 1 | x"),)),))
    causes = (TrialCauses(trial=spec.id, headline="engine changed"),)
    return finished.sweep([fakes.result(spec)], judgement=judgement, explanation=Explanation(trials=causes))


def test_github_gets_a_page_and_annotations(tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    lines = tell_ci(sweep(), tmp_path, {"GITHUB_STEP_SUMMARY": str(page), "GITHUB_ACTIONS": "true"})
    assert lines == [
        "::error title=REGRESSION%3A net/bayes-e/max::cosine: REGRESSION: 0.9, baseline 1 | x%0Aengine changed"
    ]
    text = page.read_text()
    assert text.startswith("before\n## mine: REGRESSION")
    assert "baseline 1 \\| x<br>engine changed" in text


def test_a_page_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (line,) = tell_ci(sweep(), tmp_path, {"GITHUB_STEP_SUMMARY": str(tmp_path)})
    assert line.startswith("WARNING: GITHUB_STEP_SUMMARY")


def test_gitlab_gets_links_to_the_page(tmp_path: Path) -> None:
    environment = {"GITLAB_CI": "true", "CI_JOB_URL": "https://ci/job/1", "CI_PROJECT_DIR": str(tmp_path)}
    assert tell_ci(sweep(), tmp_path / "work", environment) == []
    content = json.loads((sweep_folder(tmp_path / "work", "mine") / GITLAB_FILE).read_text())
    labels = [link["external_link"]["label"] for link in content["ptqlab"]]
    assert labels == ["mine: REGRESSION", "REGRESSION: net/bayes-e/max"]
    url = content["ptqlab"][0]["external_link"]["url"]
    assert url == "https://ci/job/1/artifacts/file/work/sweeps/mine/report.html"


def test_elsewhere_nobody_is_told(tmp_path: Path) -> None:
    assert tell_ci(sweep(), tmp_path, {}) == []
    assert not list(tmp_path.iterdir())


@pytest.fixture
def server() -> Iterator[tuple[str, list[Any]]]:
    """A webhook's address, and what it was sent; below ``/refuse`` it answers 500."""
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.headers, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(500 if self.path == "/refuse" else 204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    listening = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.server_port}", got
    listening.shutdown()
    thread.join()
    listening.server_close()


def test_a_webhook_gets_the_verdict_as_json(server: tuple[str, list[Any]], tmp_path: Path) -> None:
    url, got = server
    assert tell_webhook(url, message(sweep(), tmp_path, 12)) is None
    ((headers, content),) = got
    assert headers["Content-Type"] == "application/json"
    assert content["verdict"] == "REGRESSION"
    assert content["exit_code"] == 12
    assert content["text"] == "ptqlab mine: REGRESSION: net/bayes-e/max: engine changed"
    assert content["not_passed"][0]["cause"] == "engine changed"
    assert content["report"].startswith("file://")


def test_a_webhook_that_refuses_or_is_away_is_no_error(server: tuple[str, list[Any]]) -> None:
    assert tell_webhook(f"{server[0]}/refuse", {}) == "answered 500 Internal Server Error"
    problem = tell_webhook("http://127.0.0.1:1/secret", {})
    assert problem
    assert "secret" not in problem


def test_the_address_must_be_one() -> None:
    assert check_webhook(None) is None
    assert check_webhook("https://example.org/x") == "https://example.org/x"
    for wrong in ("file:///etc/passwd", "example.org", "https://"):
        with pytest.raises(ConfigError, match="expected an http or https address"):
            check_webhook(wrong)
