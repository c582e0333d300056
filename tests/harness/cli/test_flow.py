"""Options of the sample flow's commands; what they do is in tests/harness/flow."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli import flow
from harness.cli.main import app
from tests.harness.flow.sample import make_sample


@pytest.mark.parametrize("name", ["prepare", "evaluate", "classify", "sample"])
def test_every_command_is_one_of_ptqlab(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    first = (getattr(flow, name).__doc__ or "").split(";")[0].split(",")[0]
    assert first.split("\n")[0][:40] in " ".join(result.output.split())


def test_numbers_that_are_none_are_refused(tmp_path: Path) -> None:
    make_sample(tmp_path)
    command = ["sample", str(tmp_path / "net.onnx"), str(tmp_path / "new"), "--images", str(tmp_path / "images")]
    result = CliRunner().invoke(app, [*command, "--mean", "104 x"])
    assert result.exit_code == 2
    assert "expected numbers separated by spaces" in " ".join(result.output.split())
    result = CliRunner().invoke(app, [*command, "--mean", "104,117,123", "--input-type-train", "bgr"])
    assert result.exit_code == 0, result.output
    assert "mean_value: 104 117 123" in (tmp_path / "new" / "net_config.yaml").read_text()


def test_shells_can_complete() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert "--install-completion" in result.output
