"""A pass over calibration data that is cut off goes on where it was, to the same statistics."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from engine.calibrate import ArrayData, CalibrationOptions, HistogramRule, StatisticsOptions, collect
from engine.calibrate.data.sources import CalibrationData
from engine.calibrate.statistics.progress import Progress
from tests.engine.calibrate.models import residual

ROOT = Path(__file__).parents[4]
TENSORS = ("x", "c0", "r0", "a", "g")
X = np.random.default_rng(7).standard_normal((61, 3, 6, 5)).astype(np.float32)
METHODS = (
    CalibrationOptions(max_percentile=0.9),
    CalibrationOptions(per_channel=True),
    CalibrationOptions(calibration_type="kl", per_channel=True),
)


class PowerError(Exception):
    """The power failed."""


class Failing(ArrayData):
    """Data of which only so many reads succeed."""

    left = 0

    def read(self, start: int, stop: int) -> dict[str, np.ndarray]:
        if not self.left:
            raise PowerError
        self.left -= 1
        self.groups.append(start)
        return super().read(start, stop)

    def limited(self, left: int) -> Failing:
        self.left, self.groups = left, []
        return self


@pytest.fixture(autouse=True)
def _always_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.calibrate.statistics.progress.SECONDS", 0.0)


@pytest.mark.parametrize("rule", [HistogramRule.REFERENCE, HistogramRule.ORDER_INDEPENDENT])
@pytest.mark.parametrize("kept", [0, 1 << 30])
@pytest.mark.parametrize("reads", [1, 10, 19])
def test_a_pass_that_is_cut_off_gives_the_same_statistics(
    rule: HistogramRule, kept: int, reads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.calibrate.statistics.collection.KEPT_LIMIT", kept)
    options = StatisticsOptions.covering(METHODS, rule)
    whole = collect(residual(), TENSORS, {"x": X}, options)
    path = tmp_path / "pass.npz"
    data: CalibrationData = Failing({"x": X})
    read = []
    for _ in range(40):
        try:
            found = collect(residual(), TENSORS, data.limited(reads), options, Progress(path))
        except PowerError:
            read += data.groups
            continue
        break
    assert found.digest() == whole.digest()
    # No group of a look is read again but those whose values were to be kept in memory.
    assert reads > 22 or kept or len(read + data.groups) <= 34


def test_a_file_of_another_pass_counts_as_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "pass.npz"
    with pytest.raises(PowerError):
        collect(residual(), TENSORS, Failing({"x": X}).limited(3), None, Progress(path))
    whole = collect(residual(), ("x", "g"), {"x": X}, StatisticsOptions(percentiles=(0.9,)))
    found = collect(residual(), ("x", "g"), {"x": X}, StatisticsOptions(percentiles=(0.9,)), Progress(path))
    assert found.digest() == whole.digest()
    assert "belongs to another pass; starting again" in caplog.text


def test_a_damaged_file_counts_as_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "pass.npz"
    path.write_bytes(b"PK\3\4 nothing")
    found = collect(residual(), TENSORS, {"x": X}, None, Progress(path))
    assert found.digest() == collect(residual(), TENSORS, {"x": X}).digest()
    assert "not readable" in caplog.text


KILLED = """
import sys, time
import numpy as np
import engine.calibrate.statistics.progress as progress
from engine.calibrate import ArrayData, CalibrationOptions, collect_for
from engine.place import place
from tests.engine.calibrate.models import residual

progress.SECONDS = 0.0

class Slow(ArrayData):
    def read(self, start, stop):
        time.sleep(float(sys.argv[1]))
        return super().read(start, stop)

x = np.random.default_rng(7).standard_normal((400, 3, 6, 5)).astype(np.float32)
placed = place(residual(), "bayes-e").model
options = CalibrationOptions(calibration_type="kl", per_channel=True)
print(collect_for(residual(), [placed], Slow({"x": x}), options).digest())
"""


@pytest.mark.nightly
def test_a_killed_process_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "statistics"

    def start(pause: float, folder: Path) -> subprocess.Popen[str]:
        environment = {**os.environ, "PTQLAB_STATISTICS": str(folder), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", KILLED, str(pause)]
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)

    slow = start(0.05, folder)
    try:
        deadline = time.monotonic() + 120
        while not list(folder.glob("*.partial.npz")):
            assert time.monotonic() < deadline
            assert slow.poll() is None
            time.sleep(0.02)
        time.sleep(0.3)
    finally:
        slow.send_signal(signal.SIGKILL)
        slow.communicate()
    (partial,) = folder.glob("*.partial.npz")
    with np.load(partial) as archive:
        _, look, seen = archive["header"].tolist()
    assert (look, seen) > (0, 0)
    resumed, _ = start(0, folder).communicate(timeout=120)
    undisturbed, _ = start(0, tmp_path / "other").communicate(timeout=120)
    assert resumed == undisturbed != ""
    assert [path.name.count("partial") for path in folder.iterdir()] == [0]
