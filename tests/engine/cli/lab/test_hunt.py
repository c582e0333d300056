"""The command: our own hb_mapper as the original, with a departure that is planted in its files."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.chips import March
from engine.cli.lab.conformance import app
from engine.cli.lab.hunt import read_marches
from engine.errors import ConfigError

PLANTED = """
import sys
from pathlib import Path
import onnx, yaml
from engine.cli.vendor.hb_mapper import main
try:
    main()
finally:
    if "--config" in sys.argv:
        config = yaml.safe_load(Path(sys.argv[sys.argv.index("--config") + 1]).read_text())
        for path in Path(config["model_parameters"]["working_dir"]).glob("*_calibrated_model.onnx"):
            model = onnx.load(path)
            made = {name: node.op_type for node in model.graph.node for name in node.output}
            for node in model.graph.node:
                if node.op_type == "HzCalibration" and made.get(node.input[0]) == "MaxPool":
                    (thresholds,) = (each.floats for each in node.attribute if each.name == "thresholds")
                    thresholds[:] = [2 * value for value in thresholds]
            onnx.save(model, path)
"""
"""Thresholds of what a pooling gives are twice as large as ours."""
SMALL = ("--draws", "1", "--seed", "143", "--shrink", "2")
"""A network of eight nodes with a pooling."""
LARGE = ("--draws", "2", "--seed", "18", "--shrink", "6")
"""One network with a pooling, of more nodes, and one without."""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
    (tmp_path / "tool.py").write_text(PLANTED, encoding="utf-8")
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(tmp_path / 'tool.py'))}"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("draws", "interval", "nodes"), [(SMALL, "20.7", 8), (LARGE, "34.2", 10)], ids=["small", "large"]
)
def test_a_planted_departure_is_found_and_made_small(
    tool: str, tmp_path: Path, draws: tuple[str, ...], interval: str, nodes: int
) -> None:
    to = tmp_path / "found"
    done = CliRunner().invoke(app, ["hunt", "--toolchain", tool, *draws, "-o", str(to)])
    assert done.exit_code == 1, done.output
    told = f"agreement on networks nobody chose: operators equal 100.0 % (95 % interval {interval} to 100.0"
    assert told in done.output
    assert f"1 of {draws[1]} draws depart at calibration at MaxPool" in done.output
    content = json.loads((to / "summary.json").read_text())
    (group,) = content["groups"]
    assert (group["draws"], group["shrunk"], group["signature"]["operator"]) == (1, True, "MaxPool")
    assert len(group["operators"]) < nodes
    assert "by march" in (to / "README.md").read_text()
    checked = CliRunner().invoke(app, ["check", str(to / "groups"), "--workers", "1"])
    assert f"{group['name']} ({group['march']})" in checked.output
    assert "calibration: " in checked.output


def test_a_hunt_without_an_end_is_refused(tool: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["hunt", "--toolchain", tool, "-o", str(tmp_path / "found")])
    assert isinstance(done.exception, ConfigError)
    assert "give --minutes, --draws or both" in str(done.exception)
    assert not (tmp_path / "found").exists()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("bayes", (March("bayes"),)), ("bayes-e, bernoulli2,bayes-e", (March("bayes-e"), March("bernoulli2")))],
)
def test_marches(text: str, wanted: tuple[March, ...]) -> None:
    assert read_marches(text) == wanted


@pytest.mark.parametrize("text", ["nash-e", "x3", ""])
def test_marches_that_the_original_does_not_convert_for(text: str) -> None:
    with pytest.raises(ConfigError, match="bernoulli2, bayes, bayes-e"):
        read_marches(text)
