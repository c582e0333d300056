"""Reports a verdict on the job's page of GitHub or GitLab, and to a webhook.

Nothing here changes an exit code: a report that cannot be delivered is a warning.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from engine.errors import ConfigError
from engine.ir import write_atomically
from harness.report.results import REPORT_FILE, Sweep, sweep_folder
from harness.report.summary import github_annotations, gitlab_annotations, markdown

GITHUB_SUMMARY = "GITHUB_STEP_SUMMARY"
GITLAB_FILE = "gl-annotations.json"
_SECONDS = 10.0
"""Seconds that a webhook may take to answer."""


def check_webhook(url: str | None) -> str | None:
    """``url``, if it is an address.

    Raises:
        ConfigError: it is not one of http or https.
    """
    if url is not None and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
        raise ConfigError(f"--webhook: {urlsplit(url).scheme or 'no scheme'}: expected an http or https address")
    return url


def tell_ci(sweep: Sweep, workdir: Path, environment: Mapping[str, str] | None = None) -> list[str]:
    """Write the job's summary and annotations where a CI system asks for them; lines for its log.

    Args:
        sweep: that was judged.
        workdir: of its files.
        environment: of the process; None for its own.
    """
    environment = os.environ if environment is None else environment
    lines = []
    page = environment.get(GITHUB_SUMMARY)
    if page:
        try:
            with Path(page).open("a", encoding="utf-8") as stream:
                stream.write(markdown(sweep))
        except OSError as error:
            lines.append(f"WARNING: {GITHUB_SUMMARY}: {page}: cannot be written: {error.strerror}")
    if environment.get("GITHUB_ACTIONS") == "true":
        lines += github_annotations(sweep)
    if environment.get("GITLAB_CI") == "true":
        folder = sweep_folder(workdir, sweep.summary.suite.name)
        address = _gitlab_address(folder / REPORT_FILE, environment)
        write_atomically(folder / GITLAB_FILE, gitlab_annotations(sweep, address).encode())
    return lines


def _gitlab_address(report: Path, environment: Mapping[str, str]) -> str:
    """Address of the report among the job's artefacts; its path on disk if it is not one of them."""
    job, project = environment.get("CI_JOB_URL"), environment.get("CI_PROJECT_DIR")
    path = report.resolve()
    if job and project and path.is_relative_to(Path(project).resolve()):
        return f"{job}/artifacts/file/{path.relative_to(Path(project).resolve()).as_posix()}"
    return path.as_uri()


def message(sweep: Sweep, workdir: Path, exit_code: int) -> dict[str, Any]:
    """The content that a webhook gets: ``text`` for chats, the rest for programs."""
    summary = sweep.summary
    trials = []
    for verdict in sweep.verdicts:
        if not verdict.verdict.is_good:
            causes = summary.explanation.of(verdict.trial) if summary.explanation else None
            cause = causes.headline if causes else ""
            trials.append(
                {"trial": verdict.trial, "verdict": verdict.verdict.value, "why": verdict.message, "cause": cause}
            )
    report = (sweep_folder(workdir, summary.suite.name) / REPORT_FILE).resolve().as_uri()
    first = f": {trials[0]['trial']}: {trials[0]['cause'] or trials[0]['why']}" if trials else ""
    return {
        "text": f"ptqlab {summary.suite.name}: {sweep.verdict.value}{first}",
        "suite": summary.suite.name,
        "version": summary.suite.version,
        "sweep": summary.id,
        "started_at": summary.started_at,
        "verdict": sweep.verdict.value,
        "exit_code": exit_code,
        "engine": summary.engine,
        "commit": summary.commit,
        "trials": len(sweep.results),
        "failed": len(sweep.failed),
        "not_passed": trials,
        "report": report,
        "tracking_uri": summary.record.uri if summary.record else "",
        "run": summary.record.run if summary.record else "",
    }


def tell_webhook(url: str, content: Mapping[str, Any]) -> str | None:
    """Send ``content`` as JSON by POST. Returns the error without the address; None on success."""
    request = urllib.request.Request(  # noqa: S310 - http or https, by check_webhook
        url, json.dumps(content).encode(), {"Content-Type": "application/json", "User-Agent": "ptqlab"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS):  # noqa: S310 - as above
            return None
    except urllib.error.HTTPError as error:
        return f"answered {error.code} {error.reason}"
    except (OSError, ValueError) as error:
        return " ".join(str(error).split())[:200]
