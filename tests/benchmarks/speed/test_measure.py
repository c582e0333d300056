"""What is measured of a network of the suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.speed.measure import Extent, NetworkReport, as_json, bench_network
from benchmarks.speed.roofline import Peaks, Roofline
from benchmarks.speed.suite import SuiteNetwork, SuitePart
from engine.ir import save_model
from engine.simulate.bench import BenchOptions
from harness.bench.measure import BenchReport
from tests.engine.simulate.test_session import float_model


@pytest.mark.nightly
def test_a_network_of_the_suite_with_all_that_may_be_measured(tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    save_model(float_model(), file)
    network = SuiteNetwork("net", SuitePart.REFERENCE, lambda _: file)
    options = BenchOptions((2,), threads=1, rounds=1, seconds=0.0)
    full = bench_network(network, "bayes-e", options, Extent(roofline=True))
    assert full.figures.model == "net"
    assert full.figures.simulator[0].reference_images_per_s is None
    assert "int8 ORT" in full.figures.simulator[0].peer_images_per_s
    assert [line.batch for line in full.figures.memory] == [1]
    assert full.roofline is not None
    assert full.roofline.bytes > 0
    assert full.left_out == ()
    bare = bench_network(network, "bayes-e", options, Extent(peers=False, memory=False))
    assert (bare.figures.simulator[0].peer_images_per_s, bare.figures.memory, bare.roofline) == ({}, (), None)


def test_json_has_the_lines_of_those_that_were_compared_with_peaks() -> None:
    line = Roofline(100, 10, 2.0, 1.0, Peaks(100.0, 10.0, 1.0))
    found = as_json([NetworkReport(BenchReport("a", (), ()), line), NetworkReport(BenchReport("b", (), ()))])
    assert [(each["model"], each["share_of_operations"]) for each in found["roofline"]] == [("a", 0.5)]
