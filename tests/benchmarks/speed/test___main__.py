"""``python -m benchmarks.speed``: what is left out is said."""

from __future__ import annotations

import pytest

from benchmarks.speed import __main__ as command
from benchmarks.speed import measure, suite
from engine.errors import UnsupportedError
from engine.simulate.bench import BenchOptions
from harness.bench.measure import BenchReport


def test_networks_that_a_march_cannot_run_are_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(network: suite.SuiteNetwork, *_: object) -> measure.NetworkReport:
        if network.name == "unet":
            raise UnsupportedError("not here")
        return measure.NetworkReport(BenchReport(network.name, (), ()))

    monkeypatch.setattr(command, "bench_network", refuse)
    monkeypatch.setattr(command, "has_openvino", lambda: False)
    reports = command.measured(["unet", "resnet_18"], "bayes", BenchOptions(), measure.Extent())
    assert [report.figures.model for report in reports] == ["resnet_18"]
    assert capsys.readouterr().err == (
        "left out: int8 OpenVINO: pip install 'openvino>=2025.0'\nleft out: unet: not here\n"
    )
