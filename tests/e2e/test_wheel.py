"""A wheel built from the tree carries suites, cards and models: the main job runs from a foreign directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that holds the wheel's content and nothing of the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, text=True, env={**os.environ, "PTQLAB_KERNELS": "none"})
    (wheel,) = (folder / "dist").glob("ptqlab-*.whl")
    site = folder / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, text=True)
    return site


def run(installed: Path, folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_wheel_is_what_is_imported(installed: Path, tmp_path: Path) -> None:
    finished = run(installed, tmp_path, "import engine, harness; print(engine.__file__); print(harness.__file__)")
    assert finished.returncode == 0, finished.stderr
    assert all(line.startswith(str(installed)) for line in finished.stdout.split())


def test_smoke_runs_from_a_foreign_directory(installed: Path, tmp_path: Path) -> None:
    code = "import sys; from harness.cli.main import main; sys.argv = ['ptqlab', 'run', 'smoke']; main()"
    guarded = f"if __name__ == '__main__':\n    {code.replace('; ', chr(10) + '    ')}\n"
    script = tmp_path / "ptqlab_smoke.py"
    script.write_text(guarded)
    finished = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "32 trials, 0 failed" in finished.stdout
    assert list(tmp_path.rglob("report.html"))
    assert list(tmp_path.rglob("mlflow.db"))
