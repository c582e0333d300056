"""A wheel built from the tree carries suites, cards and models: the main job runs from a foreign directory.

Its kernels need no compiler, whatever the level of the CPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.native.prebuilt import PARTS, supported
from engine.native.registers import LEVELS, available_features

ROOT = Path(__file__).resolve().parents[2]

FIRST_IMAGE = """
import sys
sys.modules.update(dict.fromkeys(("numba", "llvmlite")))  # importing them fails
import numpy as np
from engine.simulate import Session
from engine.native.registers import LEVEL
from tests.golden_cases import BUNDLED, conversion_cases
for case in conversion_cases(BUNDLED):
    session = Session(case.model, mode="fast")
    for given, expected in case.samples:
        found = session.run(given)
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-5)
print(LEVEL.name)
"""
"""Golden cases of whole networks, in a process that cannot compile."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that holds the wheel's content and nothing of the tree."""
    return install(tmp_path_factory.mktemp("wheel"), "none")


def install(folder: Path, kernels: str) -> Path:
    """Build a wheel with the ``kernels`` of the tree's sources, and put its content into a folder."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, text=True, env={**os.environ, "PTQLAB_KERNELS": kernels})
    (wheel,) = (folder / "dist").glob("ptqlab-*.whl")
    site = folder / "site"
    unpack = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(unpack, check=True, capture_output=True, text=True)
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


@pytest.mark.parametrize("name", ["suites", "datasets", "reports"])
def test_the_wheel_has_every_bundled_file(name: str, installed: Path) -> None:
    here, there = ROOT / name, installed / "harness" / "bundled" / name
    files = [path.relative_to(here) for path in here.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert files
    assert [str(path) for path in files if not (there / path).is_file()] == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("limit", "said"),
    [
        pytest.param(("--limit", "2"), "2 trials, 0 failed", id="first trials"),
        pytest.param((), "32 trials, 0 failed", id="whole"),
    ],
)
def test_smoke_runs_from_a_foreign_directory(
    limit: tuple[str, ...], said: str, installed: Path, tmp_path: Path
) -> None:
    words = ["ptqlab", "run", "smoke", *limit]
    code = f"import sys; from harness.cli.main import main; sys.argv = {words}; main()"
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
    assert said in finished.stdout
    assert list(tmp_path.rglob("report.html"))
    assert list(tmp_path.rglob("mlflow.db"))


@pytest.mark.nightly
@pytest.mark.skipif(not supported(), reason="kernels are built for Linux on x86-64")
def test_the_kernels_of_every_level_need_no_compiler(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compiling takes 45 CPU seconds a level."""
    folder = tmp_path_factory.mktemp("kernels")
    site = install(folder, "all")
    assert len(list(site.rglob("*.o"))) == PARTS * len(LEVELS)
    (folder / "tests").symlink_to(ROOT / "tests")
    here = [level for level in LEVELS if level.features <= available_features()]
    assert here
    for level in here:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(site), str(folder)]),
            "NUMBA_CPU_FEATURES": level.feature_text,
        }
        command = [sys.executable, "-P", "-c", FIRST_IMAGE]
        finished = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr
        assert finished.stdout.split()[-1] == level.name
