"""A sweep that is killed (SIGKILL, at any moment) and started again ends as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness.trials import TrialResult

ROOT = Path(__file__).resolve().parents[2]
SUITE = """
name: killed
version: 1
models: mnist_lenet
march: bayes-e
calibration_samples: 50
evaluation_samples: 200
sweep:
  calibration_type: [max, kl]
  max_percentile: [1.0, 0.9999, 0.999]
  per_channel: [false, true]
  int16: [none, all]
"""
TRIALS = 16


def start(folder: Path, workdir: Path) -> subprocess.Popen[str]:
    command = "from harness.cli import main; main()"
    arguments = ["run", "killed.yaml", "--workdir", str(workdir), "--no-mlflow"]
    return subprocess.Popen(
        [sys.executable, "-c", command, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output


def results(workdir: Path) -> dict[str, TrialResult]:
    """Finished trials by id, without what a clock says."""
    found = {}
    for path in (workdir / "trials").glob("[!.]*/result.json"):
        result = TrialResult.model_validate_json(path.read_text())
        found[result.spec.id] = result.model_copy(update={"seconds": {}, "finished_at": "", "peak_memory_mb": None})
    return found


def written(workdir: Path) -> dict[str, int]:
    """When each result was written, by key."""
    return {path.parent.name: path.stat().st_mtime_ns for path in (workdir / "trials").glob("[!.]*/result.json")}


def test_a_sweep_killed_three_times_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    (tmp_path / "killed.yaml").write_text(SUITE)
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    finish(start(tmp_path, undisturbed))
    expected = results(undisturbed)
    assert len(expected) == TRIALS

    kept: dict[str, int] = {}
    for wanted in (1, 5, 10):
        process = start(tmp_path, killed)
        end = time.monotonic() + 120
        while len(written(killed)) < wanted:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < end
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(0.5)  # its children notice
        now = written(killed)
        assert {key: now[key] for key in kept} == kept, "a finished trial was computed again"
        kept = now
    assert len(kept) < TRIALS

    finish(start(tmp_path, killed))
    now = written(killed)
    assert {key: now[key] for key in kept} == kept, "a finished trial was computed again"
    assert results(killed) == expected
