"""The speed measurement: what it returns and refuses; no speeds are asserted here."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from engine.errors import ConfigError, ModelError
from engine.simulate.bench import (
    LOOK,
    BenchOptions,
    _calls_per_second,
    bench,
    peer_feed,
    samples,
    shaped_model,
    wait_for_sleep,
)
from engine.simulate.tensors import TensorInfo
from tests.engine.simulate.test_session import IMAGE_MODEL, float_model


def test_one_row_per_batch() -> None:
    options = BenchOptions(batches=(1, 3), threads=1, rounds=2, seconds=0.0)
    rows = bench(IMAGE_MODEL, float_model(), options)
    assert [row.batch for row in rows] == [1, 3]
    for row in rows:
        figures = row.as_dict()
        assert row.float_images_per_s is not None
        assert figures["ratio_to_float"] == pytest.approx(row.images_per_s / row.float_images_per_s)
        assert all(value is not None and value > 0 for name, value in figures.items() if "peer" not in name)


def test_float_model_and_reference_may_be_left_out() -> None:
    (row,) = bench(IMAGE_MODEL, options=BenchOptions(batches=(2,), rounds=1, seconds=0.0, reference=False))
    assert row.ratio_to_float is None
    assert row.ratio_to_reference is None


def test_wrong_options_and_models_are_refused() -> None:
    with pytest.raises(ConfigError, match="batches and rounds"):
        bench(IMAGE_MODEL, options=BenchOptions(batches=(0,)))
    with pytest.raises(ModelError, match="no quantised operators"):
        bench(float_model())


def test_rates_are_of_images_and_medians_of_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls per second by turns: 1, 2, 3 of every contender."""
    rates = iter([1.0, 10.0, 5.0, 100.0, 3.0, 30.0, 15.0, 300.0, 2.0, 20.0, 10.0, 200.0])
    monkeypatch.setattr("engine.simulate.bench._calls_per_second", lambda *_, **__: next(rates))
    options = BenchOptions(batches=(4,), threads=1, rounds=3)
    (row,) = bench(IMAGE_MODEL, float_model(), options, [SecondSession()])
    assert (row.images_per_s, row.float_images_per_s, row.reference_images_per_s) == (8.0, 80.0, 200.0)
    assert (row.ratio_to_float, row.ratio_to_reference) == (0.1, 0.04)
    assert (row.peer_images_per_s, row.ratio_to_peers) == ({"second": 40.0}, {"second": 0.2})
    assert row.as_dict()["ratio_to_peers"] == {"second": 0.2}


def test_it_waits_until_hardly_any_cpu_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    used, naps = iter([0.0, 0.01, 0.01, 0.014, 0.014, 0.0141]), list[float]()
    monkeypatch.setattr("engine.simulate.bench.time.process_time", lambda: next(used))
    monkeypatch.setattr("engine.simulate.bench.time.sleep", naps.append)
    wait_for_sleep()
    assert naps == [LOOK] * 3
    monkeypatch.setattr("engine.simulate.bench.PATIENCE", 0.0)
    wait_for_sleep()
    assert len(naps) == 3


def test_a_turn_of_several_threads_begins_when_others_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    monkeypatch.setattr("engine.simulate.bench.wait_for_sleep", lambda: waits.append(1))
    for threads in (1, 2):
        bench(IMAGE_MODEL, float_model(), BenchOptions((1,), threads, rounds=1, seconds=0.0, reference=False))
    assert len(waits) == 2, "before the turns of both contenders with two threads"


class SecondSession:
    """A peer that remembers its feeds."""

    name = "second"

    def __init__(self) -> None:
        self.feeds: list[dict[str, np.ndarray]] = []

    def run(self, feed: Mapping[str, np.ndarray]) -> None:
        self.feeds.append(dict(feed))


def test_peers_see_the_batch_of_the_float_network() -> None:
    peer = SecondSession()
    options = BenchOptions(batches=(2,), threads=1, rounds=1, seconds=0.0, reference=False)
    bench(IMAGE_MODEL, float_model(), options, [peer])
    assert len(peer.feeds) == 2
    for feed in peer.feeds:
        assert {values.shape[0] for values in feed.values()} == {2}
        assert {values.dtype for values in feed.values()} == {np.dtype(np.float32)}


def test_floats_are_the_pixels_in_their_own_layout() -> None:
    info = TensorInfo("image", (1, 3, 2, 4), np.dtype(np.float32))
    pixels = np.arange(48, dtype=np.int8).reshape(2, 2, 4, 3)
    found = peer_feed({"image": pixels}, [info], 2)["image"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, pixels.transpose(0, 3, 1, 2))
    same = peer_feed({"image": pixels.reshape(2, 3, 2, 4)}, [info], 2)["image"]
    np.testing.assert_array_equal(same, pixels.reshape(2, 3, 2, 4))


def test_inputs_that_the_simulator_does_not_have_get_noise() -> None:
    info = TensorInfo("other", (1, 5), np.dtype(np.float32))
    assert peer_feed({"image": np.zeros((2, 5), np.int8)}, [info], 2)["other"].std() > 0.1
    assert peer_feed({"other": np.zeros((2, 4), np.int8)}, [info], 2)["other"].shape == (2, 5)


def test_samples_have_the_inputs_own_shapes() -> None:
    info = TensorInfo("x", (2, 3), np.dtype(np.float32))
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    first, second = samples({"x": values}, [info])
    np.testing.assert_array_equal(first["x"], values[:2])
    np.testing.assert_array_equal(second["x"], values[2:])


@pytest.mark.parametrize(("threads", "clock"), [(1, "process_time"), (2, "perf_counter")])
def test_one_thread_is_timed_in_cpu_seconds(threads: int, clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock that is asked goes on by a second each time, the other stands still."""
    ticks = iter(range(10**6))
    for name in ("process_time", "perf_counter"):
        monkeypatch.setattr(f"engine.simulate.bench.time.{name}", lambda name=name: next(ticks) if name == clock else 0)
    (row,) = bench(IMAGE_MODEL, options=BenchOptions((3,), threads, rounds=1, seconds=1.0, reference=False))
    assert row.images_per_s == 3.0


def test_a_turn_takes_its_time_and_the_first_call_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call takes a second; 2.5 seconds are three calls."""
    clock = [0.0]

    def call() -> None:
        clock[0] += 1.0

    assert _calls_per_second(call, 2.5, lambda: clock[0]) == 1.0
    assert clock[0] == 4.0
    assert _calls_per_second(call, 0.0, lambda: clock[0], warm=False) == 1.0
    assert clock[0] == 5.0


def test_a_file_without_shapes_of_its_tensors_gets_them() -> None:
    given = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> net (float[1, 4] x) => (float[1, 4] y) {h = Relu(x) y = Neg(h)}'
    )
    model = ir.from_proto(given)
    assert [value.shape is None for node in model.graph for value in node.outputs] == [True, False]
    assert [tuple(value.shape or ()) for node in shaped_model(model).graph for value in node.outputs] == [(1, 4)] * 2
