"""One pass over the data: independent of batches and order, bounded in memory."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper

from engine.calibrate import CalibrationOptions, HistogramRule, StatisticsOptions, collect
from engine.calibrate.data.sources import CalibrationData
from engine.calibrate.methods.channels import tensors_per_channel
from engine.calibrate.statistics.collection import _bounds, _chunks, chosen_tensors, constant_statistics
from engine.calibrate.statistics.collection import collect as collect_here
from engine.calibrate.statistics.distribution import order_index
from engine.calibrate.statistics.observers import DistributionObserver, GrowingHistogram
from engine.errors import CalibrationDataError, ModelError
from engine.floats.float_model import FloatSession, Kernels
from engine.ir import MARK_MARCH
from tests.engine.calibrate.models import EVERYTHING, TENSORS, graph, identity, residual, samples, shortcut


def test_maximum_and_percentiles_are_those_of_the_activations() -> None:
    x = samples(20)
    statistics = collect(residual(), TENSORS, {"x": x}, StatisticsOptions(percentiles=(0.99, 0.9)))
    activations = {"x": x, **FloatSession(residual(), TENSORS[1:]).run({"x": x})}
    for name, array in activations.items():
        descending = np.sort(np.abs(array).ravel())[::-1]
        assert statistics.tensors[name].pooled.maximum == descending[0]
        for fraction in (0.99, 0.9):
            index = order_index(fraction, len(array), array[0].size)
            assert statistics.tensors[name].pooled.percentile(fraction) == descending[index]
        expected = np.abs(array).max(axis=(0, 2, 3))
        np.testing.assert_array_equal(statistics.tensors[name].channel_max, expected)


@pytest.mark.nightly
@given(seed=st.integers(0, 2**16), batch=st.integers(1, 8), count=st.integers(1, 30))
def test_nothing_depends_on_batches_or_order(seed: int, batch: int, count: int) -> None:
    x = samples(count)
    covering = StatisticsOptions.covering(EVERYTHING, HistogramRule.ORDER_INDEPENDENT)
    whole = collect(residual(), TENSORS, {"x": x}, covering)
    shuffled = np.random.default_rng(seed).permutation(x)
    split = collect(residual(), TENSORS, {"x": shuffled}, covering.model_copy(update={"batch": batch, "threads": 1}))
    assert split.digest() == whole.digest()
    for options in EVERYTHING:
        assert split.thresholds(options) == whole.thresholds(options)


@pytest.mark.nightly
@given(seed=st.integers(0, 2**16), batch=st.integers(1, 8))
def test_reference_histogram_depends_on_nothing_but_the_groups_of_8(seed: int, batch: int) -> None:
    x = samples(24)
    options = StatisticsOptions.covering(EVERYTHING)
    whole = collect(residual(), TENSORS, {"x": x}, options)
    rng = np.random.default_rng(seed)
    within = np.concatenate([rng.permutation(x[start : start + 8]) for start in range(0, 24, 8)])
    split = collect(residual(), TENSORS, {"x": within}, options.model_copy(update={"batch": batch}))
    assert split.digest() == whole.digest()


@pytest.mark.parametrize("kept", [0, 64 << 20])
@pytest.mark.parametrize("kernels", list(Kernels))
def test_single_samples_are_groups_in_their_order_however_many_threads_compute_them(
    kernels: Kernels, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sample by sample, as the original does it where a network takes one at a time: ranges grow in that order."""
    monkeypatch.setattr("engine.calibrate.statistics.collection.group_size", lambda model: 1)
    monkeypatch.setattr("engine.calibrate.statistics.collection.KEPT_LIMIT", kept)
    factors = np.random.default_rng(3).permutation(np.geomspace(1, 300, 19)).astype(np.float32)
    x = samples(19) * factors[:, np.newaxis, np.newaxis, np.newaxis]
    options = StatisticsOptions.covering(EVERYTHING, kernels=kernels)
    one, several = (
        collect(residual(), TENSORS, {"x": x}, options.model_copy(update={"threads": count})) for count in (1, 4)
    )
    assert several.digest() == one.digest()
    histogram = one.tensors["x"].pooled.histogram
    assert histogram is not None
    expected = GrowingHistogram(float(np.abs(x[0]).max()))
    for sample in x:
        expected.update(sample.reshape(-1), float(np.abs(sample).max()))
        expected.end_group()
    np.testing.assert_array_equal(histogram.counts, expected.result().counts)


def test_a_sample_that_fails_ends_the_wait_of_those_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.calibrate.statistics.collection.group_size", lambda model: 1)
    seen = []

    def update(self: DistributionObserver, values: NDArray[np.float32]) -> None:
        seen.append(float(values.max()))
        if len(seen) > len(TENSORS):
            raise MemoryError("enough")

    monkeypatch.setattr(DistributionObserver, "update", update)
    with pytest.raises(MemoryError, match="enough"):
        collect(residual(), TENSORS, {"x": samples(9)}, StatisticsOptions(threads=4))


def test_tensors_beyond_the_buffer_limit_take_further_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    options, x = StatisticsOptions.covering(EVERYTHING), samples(19)
    whole = collect(residual(), TENSORS, {"x": x}, options)
    monkeypatch.setattr("engine.calibrate.statistics.collection.BUFFER_LIMIT", 1)
    assert collect(residual(), TENSORS, {"x": x}, options).digest() == whole.digest()


@pytest.mark.parametrize("rule", [HistogramRule.REFERENCE, HistogramRule.ORDER_INDEPENDENT])
@pytest.mark.parametrize("count", [3, 8, 19])
def test_values_too_many_to_keep_are_computed_again(
    monkeypatch: pytest.MonkeyPatch, rule: HistogramRule, count: int
) -> None:
    options, x = StatisticsOptions.covering(EVERYTHING, rule), samples(count)
    kept = collect(residual(), TENSORS, {"x": x}, options)
    monkeypatch.setattr("engine.calibrate.statistics.collection.KEPT_LIMIT", 0)
    assert collect(residual(), TENSORS, {"x": x}, options).digest() == kept.digest()


@pytest.mark.parametrize("first", [0.01, 9.0])
@pytest.mark.parametrize("later", [0.01, 9.0])
def test_histograms_do_not_depend_on_whether_a_bound_is_reached(first: float, later: float) -> None:
    """The first range of a clipped tensor is guessed to be its bound."""
    options, x = StatisticsOptions.covering(EVERYTHING), samples(19)
    x[:8] *= np.float32(first)
    x[8:] *= np.float32(later)
    nodes = [
        helper.make_node("Clip", ["x", "low", "high"], ["c"], name="clip"),
        helper.make_node("Neg", ["c"], ["y"], name="neg"),
    ]
    bounds = {"low": np.float32(-0.5), "high": np.float32(1)}
    found = collect(graph(nodes, {"x": (1, 3, 6, 5)}, ["y"], bounds), ("c",), {"x": x}, options)
    expected = collect(identity((1, 3, 6, 5)), ("t",), {"x": np.clip(x, -0.5, 1)}, options)
    assert found.tensors["c"].pooled == expected.tensors["t"].pooled


def test_infinity_counts_as_the_largest_float_and_nan_not_at_all() -> None:
    x = np.asarray([[1.0, np.nan, -2.0]], np.float32)
    assert collect(identity((1, 3)), ["t"], {"x": x}).tensors["t"].pooled.maximum == 2.0
    x[0, 0] = -np.inf
    assert collect(identity((1, 3)), ["t"], {"x": x}).thresholds(CalibrationOptions()) == {
        "t": (3.4028234663852886e38,)
    }


def test_channels_are_equalised_where_a_sum_reads_a_convolution() -> None:
    x = samples(12)
    readers = tensors_per_channel(shortcut(), TENSORS)["r0"]
    statistics = collect(shortcut(), TENSORS, {"x": x}, StatisticsOptions(percentiles=(0.9,), per_channel=True))
    r0 = np.abs(FloatSession(shortcut(), ["r0"]).run({"x": x})["r0"])
    peaks = r0.max(axis=(0, 2, 3))
    scales = 1.001 * peaks.max() / (peaks.astype(np.float64) + 0.001 * peaks.max())
    np.testing.assert_allclose(readers.factors(peaks), scales, rtol=3e-7)
    equalised = np.sort((r0 * scales.astype(np.float32)[:, None, None]).ravel())[::-1]
    for fraction, index in ((1.0, 0), (0.9, min(int((1 - 0.9) * r0.size), r0[0].size // 2))):
        found = statistics.thresholds(CalibrationOptions(max_percentile=fraction, per_channel=True))
        np.testing.assert_allclose(found["r0"], equalised[index] / scales, rtol=1e-6)
        assert [name for name in TENSORS if len(found[name]) > 1] == ["r0"]  # values of x are small


def test_channels_of_equal_factors_take_one_pass_and_the_common_threshold() -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "c"), helper.make_node("Conv", ["c", "w"], ["y"], "y")]
    model = graph(nodes, {"x": (1, 2, 6, 6)}, ["y"], {"w": np.full((2, 2, 1, 1), 9.0, np.float32)})
    model.metadata_props[MARK_MARCH] = "bayes-e"
    found = collect(model, ["c"], {"x": samples(3, (2, 6, 6))}, StatisticsOptions(per_channel=True)).tensors["c"]
    assert found.equalized is None
    assert found.thresholds(CalibrationOptions(per_channel=True)) == (found.pooled.maximum,) * 2


def test_covering_asks_for_no_more_than_needed() -> None:
    least = StatisticsOptions.covering([CalibrationOptions()])
    assert (least.percentiles, least.histogram, least.per_channel) == ((), HistogramRule.NONE, False)
    most = StatisticsOptions.covering(EVERYTHING)
    assert (most.percentiles, most.histogram, most.per_channel) == ((0.9, 0.999), HistogramRule.REFERENCE, True)


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="batch"):
        StatisticsOptions(batch=9)
    with pytest.raises(ValueError, match="range: 0~1"):
        CalibrationOptions(max_percentile=1.5)
    with pytest.raises(CalibrationDataError, match="at least one"):
        collect(residual(), TENSORS, {"x": samples(0)})
    with pytest.raises(ModelError, match=r"no tensors \['absent'\]"):
        collect(residual(), ["absent"], {"x": samples(1)})


def test_a_percentile_counts_one_row_of_the_first_dimension() -> None:
    """As behind the windows of ``swin`` and the steps of ``crnn_gru``."""
    constants = {"windows": np.asarray([4, 1, -1], np.int64)}
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Reshape", ["r", "windows"], ["y"], name="reshape"),
    ]
    model = graph(nodes, {"x": (1, 4, 6, 5)}, ["y"], constants)
    x = np.abs(np.random.default_rng(0).standard_normal((10, 4, 6, 5))).astype(np.float32)
    statistics = collect(model, ["r", "y"], {"x": x}, StatisticsOptions(percentiles=(0.99,)))
    descending = np.sort(x.ravel())[::-1]
    found = [statistics.tensors[name].pooled.percentile(0.99) for name in ("r", "y")]
    assert found == [descending[12], descending[3]]


def test_a_percentile_counts_a_constant_once_per_sample_and_looks_at_its_values_once() -> None:
    """As the positions that ``swin_c`` adds; (1, 2, 16, 16) at 0.9995 and 8 samples."""
    array = samples(1, (1, 2, 16, 16))[0]
    options = StatisticsOptions(percentiles=(0.9995, 0.5))
    found = constant_statistics(array, options, samples=8).pooled
    descending = np.sort(np.abs(array).ravel())[::-1]
    assert found.percentile(1.0) == descending[0]
    assert found.percentile(0.9995) == descending[2]  # int(0.0005 * 8 * 512)
    assert found.percentile(0.5) == descending[256]
    assert constant_statistics(np.float32(-3.0), options, samples=8).pooled.percentile(0.5) == 3.0


def test_models_of_a_fixed_batch_take_samples_of_that_many_rows() -> None:
    model, x = identity((2, 3)), samples(20, (3,))
    statistics = collect(model, ["x", "t"], {"x": x}, StatisticsOptions(percentiles=(0.9,)))
    assert statistics.samples == 10
    descending = np.sort(np.abs(x).ravel())[::-1]
    assert statistics.thresholds(CalibrationOptions(max_percentile=0.9))["t"] == (
        descending[min(int((1 - 0.9) * 60), 3)],
    )
    with pytest.raises(CalibrationDataError, match="5 rows; a sample of this model has 2"):
        collect(model, ["t"], {"x": x[:5]})


class Endless(CalibrationData):
    """Made-up samples that take no memory."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def read(self, start: int, stop: int) -> dict[str, NDArray[np.float32]]:
        return {"x": samples(stop - start, (8, 32, 32), seed=start)}

    def digest(self) -> str:
        return str(self._count)


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_number_of_samples() -> None:
    model, options = identity((1, 8, 32, 32)), StatisticsOptions(percentiles=(0.999,), per_channel=True)

    def peak(count: int) -> int:
        """Least of two runs: what else is collected meanwhile comes on top."""
        sizes = []
        for _ in range(2):
            gc.collect()
            tracemalloc.start()
            collect(model, ["x", "t"], Endless(count), options)
            sizes.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        return min(sizes)

    peak(8)
    assert peak(2400) < 1.05 * peak(600)  # from 500 samples on, 0.999 asks for half a sample of largest values


def test_tensors_are_taken_in_pieces_below_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two samples a map of ten numbers takes 80 bytes."""
    monkeypatch.setattr("engine.calibrate.statistics.collection.BUFFER_LIMIT", 160)
    shapes = {"a": (1, 10), "b": (1, 10), "c": (1, 1), "huge": (1, 100), "d": (1, 2)}
    assert [list(chunk) for chunk in _chunks(shapes, {}, 2)] == [["a", "b"], ["c"], ["huge"], ["d"]]
    assert [list(chunk) for chunk in _chunks(shapes, {}, 1)] == [["a", "b", "c"], ["huge"], ["d"]]
    assert [list(chunk) for chunk in _chunks(shapes, {"output": (20,)}, 1)] == [["a", "b"], ["c"], ["huge"], ["d"]]


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(-1.0, 6.0, 6.0), (-8.0, 6.0, 8.0), (0.0, 0.0, None), (0.0, np.inf, None)]
)
def test_a_clip_bounds_the_magnitude_of_its_result(low: float, high: float, expected: float | None) -> None:
    nodes = [helper.make_node("Clip", ["x", "l", "h"], ["y"], name="clip")]
    model = graph(nodes, {"x": (1, 4)}, ["y"], {"l": np.float32(low), "h": np.float32(high)})
    assert _bounds(model) == ({} if expected is None else {"y": expected})


def test_equalised_distributions_are_collected_on_request_only() -> None:
    for wanted, expected in ((True, ["x", "r0"]), (False, [])):
        assert list(chosen_tensors(shortcut(), TENSORS, StatisticsOptions(per_channel=wanted))) == expected


def test_what_is_asked_for_twice_counts_once_and_order_is_kept() -> None:
    statistics = collect_here(residual(), ("r0", "x", "r0"), {"x": samples(2)})
    assert list(statistics.tensors) == ["r0", "x"]


def test_percentiles_are_sorted_clamped_and_without_the_maximum() -> None:
    assert StatisticsOptions(percentiles=(0.99, 0.1, 1.0, 0.3, 0.99)).percentiles == (0.5, 0.99)


@pytest.mark.parametrize("batch", [0, 9])
def test_runs_take_one_to_eight_samples(batch: int) -> None:
    with pytest.raises(ValueError, match="batch"):
        StatisticsOptions(batch=batch)
    assert StatisticsOptions(batch=8).batch == 8
