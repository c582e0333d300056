"""Statistics as a value and as a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.calibrate import CalibrationOptions, HistogramRule, StatisticsOptions, collect
from engine.calibrate.statistics.distribution import Distribution, Histogram
from engine.calibrate.statistics.statistics import FORMAT, Statistics, TensorStatistics
from engine.errors import CalibrationDataError, ConfigError, UnsupportedError
from tests.engine.calibrate.models import EVERYTHING, TENSORS, identity, residual, samples


def test_saved_statistics_are_the_same(tmp_path: Path) -> None:
    options = StatisticsOptions.covering(EVERYTHING)
    statistics = collect(residual(), TENSORS, {"x": samples(9)}, options)
    loaded = Statistics.load(statistics.save(tmp_path / "statistics.npz"))
    assert loaded.digest() == statistics.digest()
    assert (loaded.samples, loaded.per_channel) == (9, True)
    for option in EVERYTHING:
        assert loaded.thresholds(option) == statistics.thresholds(option)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04garbage", b"not a zip"])
def test_damaged_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "statistics.npz"
    path.write_bytes(content)
    with pytest.raises(CalibrationDataError, match=r"statistics\.npz"):
        Statistics.load(path)


def test_truncated_and_foreign_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "statistics.npz"
    collect(residual(), TENSORS, {"x": samples(2)}).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(CalibrationDataError, match="not a readable"):
        Statistics.load(path)
    np.savez(path, other=np.zeros(1))
    with pytest.raises(CalibrationDataError, match="not a readable"):
        Statistics.load(path)
    with pytest.raises(CalibrationDataError, match="absent"):
        Statistics.load(tmp_path / "absent.npz")


def test_digest_tells_other_data_apart() -> None:
    digests = {collect(residual(), TENSORS, {"x": samples(3, seed=seed)}).digest() for seed in (1, 2, 3)}
    assert len(digests) == 3


@pytest.mark.parametrize("kind", ["max", "kl"])
@pytest.mark.parametrize(("fill", "expected"), [(0.0, 1.0), (np.nan, 1.0)])
def test_tensors_without_values_get_one(kind: str, fill: float, expected: float) -> None:
    statistics = collect(identity((1, 3)), ["t"], {"x": np.full((9, 3), fill, np.float32)})
    assert statistics.thresholds(CalibrationOptions(calibration_type=kind)) == {"t": (expected,)}


def test_what_was_not_collected_is_an_error() -> None:
    statistics = collect(residual(), TENSORS, {"x": samples(2)}, StatisticsOptions(histogram=HistogramRule.NONE))
    for options, message in (
        (CalibrationOptions(calibration_type="kl"), "histograms"),
        (CalibrationOptions(max_percentile=0.9), "not collected"),
        (CalibrationOptions(per_channel=True), "per_channel"),
    ):
        with pytest.raises(ConfigError, match=message):
            statistics.thresholds(options)
    with pytest.raises(UnsupportedError, match="'kl', 'load', 'max', 'skip'"):
        statistics.thresholds(CalibrationOptions(calibration_type="mix"))


PEAKS = np.asarray([4.0, 1.0], np.float32)
FACTOR = 4.004 / 1.004
SEEN = TensorStatistics(
    PEAKS, Distribution(4.0, {0.9: 3.0}), Distribution(2.0, {0.9: 1.5}), np.asarray([1.0, FACTOR], np.float32)
)


def test_a_threshold_per_channel_is_the_common_one_of_equalised_channels_undone() -> None:
    """Channels are multiplied by 1 and 4.004 / 1.004."""
    for fraction, common in ((1.0, 2.0), (0.9, 1.5)):
        options = CalibrationOptions(per_channel=True, max_percentile=fraction)
        assert SEEN.thresholds(options) == pytest.approx((common, common / FACTOR), rel=1e-6)
    assert SEEN.thresholds(CalibrationOptions(max_percentile=0.9)) == (3.0,)
    alone = TensorStatistics(PEAKS, Distribution(4.0, {}))
    assert alone.thresholds(CalibrationOptions(per_channel=True)) == (4.0,)
    repeated = TensorStatistics(PEAKS, Distribution(4.0, {}), factors=np.ones(2, np.float32))
    assert repeated.thresholds(CalibrationOptions(per_channel=True)) == (4.0, 4.0)
    assert repeated.thresholds(CalibrationOptions()) == (4.0,)


def test_thresholds_are_float32() -> None:
    seen = TensorStatistics(PEAKS, Distribution(0.1, {}))
    assert seen.thresholds(CalibrationOptions()) == (float(np.float32(0.1)),)


def test_everything_is_kept_in_the_file(tmp_path: Path) -> None:
    pooled = Distribution(4.0, {0.5: 1.0, 0.9: 3.0}, Histogram(np.arange(5), 0.25))
    given = Statistics({"b/c": TensorStatistics(PEAKS, pooled), "a": SEEN}, 7, per_channel=True)
    found = Statistics.load(given.save(tmp_path / "s.npz"))
    assert (found.samples, found.per_channel, set(found.tensors)) == (7, True, {"a", "b/c"})
    assert found.tensors["b/c"].pooled == pooled
    assert found.tensors["b/c"].factors is None
    np.testing.assert_array_equal(found.tensors["a"].factors, SEEN.factors)
    assert found.tensors["a"].equalized == SEEN.equalized
    assert found.digest() == given.digest()


def test_files_of_another_version_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.calibrate.statistics.statistics.FORMAT", FORMAT + 1)
    path = Statistics({"a": SEEN}, 1).save(tmp_path / "s.npz")
    monkeypatch.undo()
    with pytest.raises(CalibrationDataError, match=r"s\.npz: not a readable statistics file"):
        Statistics.load(path)
