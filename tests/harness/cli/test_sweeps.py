"""``ptqlab run``, ``nightly`` and ``sync``: what they ask for, and their exit codes."""

from __future__ import annotations

import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from engine.errors import ConfigError
from engine.simulate import fast
from harness.cli import sweeps
from harness.cli.main import app
from harness.gates.judgement import References
from harness.sweeps import announcing, baselines, nightly, sweep


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the sweep is asked for; ``failed``, ``promoted`` and ``code`` say what becomes of it."""
    found: dict[str, Any] = {"failed": [], "promoted": True, "code": 0, "shown": []}

    def run_suite(suite: Any, plan: Any, **options: Any) -> Any:
        found.update(options, suite=suite.name, plan=plan)
        if found.get("interrupt"):
            options["observers"][0].kept = 3
            raise KeyboardInterrupt
        return SimpleNamespace(failed=found["failed"])

    def promote(sweep: Any, workdir: Path, *, accept: bool, anchor: bool) -> bool:
        found.update(accept=accept, anchor=anchor)
        return bool(found["promoted"])

    monkeypatch.setattr(fast, "available_cpus", lambda: 8)
    monkeypatch.setattr(sweep, "run_suite", run_suite)
    monkeypatch.setattr(baselines, "find_baseline", lambda suite: Path("accepted"))
    monkeypatch.setattr(baselines, "resolve_baseline", lambda name, *rest: Path(f"resolved {name}"))
    monkeypatch.setattr(nightly, "night_references", lambda *_: References(baseline=Path("last")))
    monkeypatch.setattr(nightly, "promote_if_good", promote)
    monkeypatch.setattr(nightly, "exit_code", lambda sweep, accept: found["code"])
    monkeypatch.setattr(announcing, "tell_ci", lambda *_: [])
    for name in ("show_sweep", "show_drift"):
        monkeypatch.setattr(sweeps, name, lambda *_, name=name: found["shown"].append(name))
    return found


def call(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--workdir", str(folder)])


def test_a_run_asks_for_what_its_options_say(asked: dict[str, Any], tmp_path: Path) -> None:
    found = call(tmp_path, "run", "smoke")
    assert found.exit_code == 0, found.output
    plan = asked["plan"]
    assert (plan.workers, plan.bench.threads, plan.fresh, plan.retry_failed, plan.time_limit) == (
        8,
        1,
        False,
        False,
        None,
    )
    assert plan.bench.workdir == tmp_path.resolve()
    assert (asked["references"].baseline, asked["record"], asked["night"]) == (Path("accepted"), True, False)
    assert (asked["recheck_nights"], asked["explain_seconds"]) == (0, 0.0)
    options = ["--workers", "3", "--fresh", "--retry", "failed", "--time-limit", "5", "--no-mlflow", "--baseline", "@x"]
    assert call(tmp_path, "run", "smoke", *options).exit_code == 0
    plan = asked["plan"]
    assert (plan.workers, plan.bench.threads, plan.fresh, plan.retry_failed, plan.time_limit) == (3, 2, True, True, 5.0)
    assert (asked["references"].baseline, asked["record"]) == (Path("resolved @x"), False)


def test_more_workers_than_cpus_have_a_thread_each(asked: dict[str, Any], tmp_path: Path) -> None:
    call(tmp_path, "run", "smoke", "--workers", "20")
    assert asked["plan"].bench.threads == 1


def test_a_failed_trial_is_an_exit_code(asked: dict[str, Any], tmp_path: Path) -> None:
    asked["failed"] = ["one"]
    assert call(tmp_path, "run", "smoke").exit_code == 1
    assert asked["shown"] == ["show_sweep"]


def test_an_interrupt_says_how_to_go_on(asked: dict[str, Any], tmp_path: Path) -> None:
    asked["interrupt"] = True
    found = call(tmp_path, "run", "smoke")
    assert found.exit_code == 130
    assert "interrupted; 3 finished trials are kept. The same command continues." in found.output


@pytest.mark.parametrize("code", [0, 12, 14])
def test_a_night_ends_with_its_code(code: int, asked: dict[str, Any], tmp_path: Path) -> None:
    asked["code"] = code
    found = call(tmp_path, "nightly", "smoke")
    assert found.exit_code == code
    assert asked["shown"] == ["show_sweep", "show_drift"]
    assert (asked["night"], asked["recheck_nights"], asked["explain_seconds"]) == (True, 14, 60.0)
    assert (asked["references"].baseline, asked["record"]) == (Path("last"), True)
    assert "promoted: this sweep is @last-good of smoke now" in found.output


def test_the_anchor_moves_with_a_promotion_only(asked: dict[str, Any], tmp_path: Path) -> None:
    assert "is @last-good and @anchor of smoke now" in call(tmp_path, "nightly", "smoke", "--anchor", "--accept").output
    assert (asked["accept"], asked["anchor"]) == (True, True)
    asked["promoted"] = False
    assert "not promoted: @anchor of smoke is unchanged" in call(tmp_path, "nightly", "smoke", "--anchor").output
    assert "promoted" not in call(tmp_path, "nightly", "smoke").output


def test_limits_fail_fast_and_the_name_to_go_on_with(asked: dict[str, Any], tmp_path: Path) -> None:
    assert call(tmp_path, "run", "smoke", "--limit", "3", "--fail-fast").exit_code == 0
    assert (asked["plan"].most_trials, asked["plan"].fail_fast, asked["asked"]) == (3, True, "smoke")
    assert call(tmp_path, "nightly", "smoke", "--fail-fast").exit_code == 0
    assert (asked["plan"].most_trials, asked["plan"].fail_fast) == (None, True)


def test_a_dry_run_and_a_listing_run_nothing(asked: dict[str, Any], tmp_path: Path) -> None:
    found = call(tmp_path, "run", "smoke", "--dry-run", "--limit", "2")
    assert "32 trials: 0 have a result, 2 would be computed" in found.output
    assert "is complete" in call(tmp_path, "run", "--resume").output
    assert isinstance(call(tmp_path, "run").exception, ConfigError)
    assert "plan" not in asked


@pytest.mark.parametrize("command", ["run", "nightly"])
def test_too_little_address_space_is_refused(
    command: str, asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (800 * 2**20, resource.RLIM_INFINITY))
    found = call(tmp_path, command, "smoke")
    assert str(found.exception) == (
        "this process may use 800 MB of address space; a sweep needs 1,000: raise the limit (ulimit -v)"
    )
    assert "plan" not in asked


def test_a_webhook_that_is_away_changes_no_exit_code(
    asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked["code"] = 12
    monkeypatch.setattr(announcing, "message", lambda sweep, workdir, code: {"exit_code": code})
    told: list[Any] = []
    monkeypatch.setattr(announcing, "tell_webhook", lambda url, content: told.append((url, content)) or "is away")
    found = call(tmp_path, "nightly", "smoke", "--webhook", "https://example.org/x")
    assert found.exit_code == 12
    assert told == [("https://example.org/x", {"exit_code": 12})]
    assert "WARNING: the webhook could not be called: is away" in found.output
    assert isinstance(call(tmp_path, "nightly", "smoke", "--webhook", "ftp://x").exception, ConfigError)
