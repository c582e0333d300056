"""``ptqlab conformance check``: what it prints and writes, bars and exit codes, networks that are held out."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.cli.lab.conformance import (
    EXIT_BELOW_BAR,
    NetworkShare,
    _is_chosen,
    _is_in,
    app,
    as_dict,
    below,
    read_bars,
    read_holdout,
)
from engine.conformance.table import MEASURES
from engine.errors import ConfigError
from tests.engine.conformance.test_table import case, row

BUNDLED = Path(__file__).parents[3] / "golden" / "cases"
AGREES = "min_c2f_bayes-e_max_rgb"


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recorded networks, of which the second departs: its record says that a node ran on the CPU."""
    folder = tmp_path_factory.mktemp("networks")
    for name, device in (("one", "BPU"), ("two", "CPU")):
        to = Path(shutil.copytree(BUNDLED / AGREES, folder / f"{name}_a"))
        content = json.loads((to / "expected.json").read_text())
        nodes = list(content["nodes"].values())
        nodes[1]["ON"] = device
        result = {"net": name, "nodes": nodes, "subgraphs_us_ddr": [{"latency": content["performance"]["us"]}]}
        (to / "result.json").write_text(json.dumps(result))
        (to / "expected.json").unlink()
        (to / "c.yaml").rename(to / "config.yaml")
        for stage in ("calibrated", "quantized"):
            (to / f"expected_{stage}.onnx").rename(to / f"{stage}.onnx")
    return folder


@pytest.mark.nightly
def test_tables_files_and_bars(networks: Path, tmp_path: Path) -> None:
    page, report = tmp_path / "page.html", tmp_path / "report.json"
    bars = ["--bar", "operators=1", "--bar", "devices=1", "--bar", "outputs=0.5"]
    done = CliRunner().invoke(
        app, ["check", str(networks), "--workers", "1", "--html", str(page), "--json", str(report), *bars]
    )
    assert done.exit_code == EXIT_BELOW_BAR, done.output
    assert done.stderr.splitlines() == [
        "devices (all): 0.9839, the bar is 1",
        "outputs (all): not measured, the bar is 0.5",
    ]
    assert "First departures of the networks that are not held out: devices 1" in done.output
    assert "    devices: Conv_0: CPU | BPU" in done.output
    content = json.loads(report.read_text())
    assert [group["cases"] for group in content["table"]] == [2]
    assert {row["case"]: row["departure"] is None for row in content["cases"]} == {"one_a": True, "two_a": False}
    text = page.read_text("utf-8")
    assert "two_a" in text
    assert "CPU | BPU" in text
    assert "://" not in text


@pytest.mark.nightly
def test_networks_that_are_held_out_are_scored_and_not_shown(networks: Path, tmp_path: Path) -> None:
    page, report = tmp_path / "page.html", tmp_path / "report.json"
    tables = tmp_path / "tables.md"
    arguments = ["check", str(networks), "--workers", "1", "--holdout", "every:2", "--bar", "devices=1,0.9"]
    done = CliRunner().invoke(app, [*arguments, "--html", str(page), "--json", str(report), "--markdown", str(tables)])
    assert done.exit_code == 0, done.output
    for text in (done.output, page.read_text("utf-8"), report.read_text()):
        assert "CPU | BPU" not in text
    assert "one_a (bayes-e)" in done.output
    assert "two_a (bayes-e)" not in done.output
    lines = tables.read_text("utf-8").splitlines()
    assert lines[0] == "| measure | | seen (1) | held out (1) |"
    assert "| `devices` | nodes on the same device, by name | 100.0 % | 96.8 % |" in lines
    assert any(line.startswith("| two (held out) | 1 | 100 % | - | 100 % | 100 % | 97 % |") for line in lines)
    seen, away = json.loads(report.read_text())["table"]
    assert (seen["values"]["devices"], seen["cases"], away["cases"]) == (1.0, 1, 1)
    assert away["values"]["devices"] < 1


def test_only_chosen_cases_are_measured(networks: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(networks), "--workers", "1", "--only", "on*"])
    assert done.exit_code == 0, done.output
    assert "one_a" in done.output
    assert "two_a" not in done.output


@pytest.mark.parametrize("text", ["third", "every:0", "every:x"])
def test_wrong_holdout(text: str) -> None:
    with pytest.raises(ConfigError, match="every:N"):
        read_holdout(text)


@pytest.mark.parametrize("text", ["speed=1", "outputs", "outputs=high", "outputs=0.5,high"])
def test_wrong_bars(text: str) -> None:
    with pytest.raises(ConfigError, match="--bar"):
        read_bars([text])


def test_nothing_chosen(networks: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(networks), "--only", "three"])
    assert isinstance(done.exception, ConfigError)
    assert "--only three" in str(done.exception)


@pytest.mark.parametrize(("text", "expected"), [(None, None), ("every:1", 1), ("every:12", 12)])
def test_holdout(text: str | None, expected: int | None) -> None:
    assert read_holdout(text) == expected


def test_bars_hold_for_columns_or_for_all() -> None:
    rows = [row("a", outputs=True), row("b", outputs=False), row("c", outputs=True, held_out=True)]
    assert below(rows, read_bars(["outputs=0.5"])) == []
    assert below(rows, read_bars(["outputs=0.6"])) == ["outputs (seen): 0.5000, the bar is 0.6"]
    assert below(rows, read_bars(["outputs=0.5,1"])) == []
    assert below(rows, read_bars(["operators=0"])) == [
        "operators (seen): not measured, the bar is 0",
        "operators (held out): not measured, the bar is 0",
    ]


def test_errors_are_better_where_they_are_lower() -> None:
    rows = [row("a", latency_us=10.0, predicted_us=11.0)]
    name = next(name for name in MEASURES if name.startswith("latency"))
    assert below(rows, {name: (0.11,)}) == []
    assert len(below(rows, {name: (0.09,)})) == 1


@pytest.mark.parametrize(
    ("patterns", "expected"), [(None, True), (["a"], True), (["net*"], True), (["b", "a"], True), (["b"], False)]
)
def test_cases_are_chosen_by_name_or_network(patterns: list[str] | None, expected: bool) -> None:
    given = replace(case("a"), family="network")
    assert _is_chosen(given, patterns) is expected


@pytest.mark.parametrize(
    ("part", "seen", "held"),
    [(NetworkShare.ALL, True, True), (NetworkShare.SEEN, True, False), (NetworkShare.HELD_OUT, False, True)],
)
def test_parts(part: NetworkShare, seen: bool, held: bool) -> None:
    assert (_is_in(part, False), _is_in(part, True)) == (seen, held)


def test_causes_of_held_out_networks_are_left_out() -> None:
    rows = [row("a", message="why", latency_us=10.0, predicted_us=12.0), row("b", message="why", held_out=True)]
    first, second = as_dict(rows)["cases"]
    assert (first["message"], first["latency_error"]) == ("why", pytest.approx(0.2))
    assert not {"message", "departure", "output_message", "simulator_message"} & second.keys()


def test_questions_are_written_and_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["questions", "-o", str(tmp_path / "asked"), "--only", "line*"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith("lines: How are convolutions")
    assert lines[1].startswith("3 configurations in ")
    assert len(list((tmp_path / "asked" / "lines").glob("*.yaml"))) == 3


def test_a_question_that_nobody_asks_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["questions", "-o", str(tmp_path / "asked"), "--only", "nothing"])
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith(
        "--only nothing: no question has such a name; there are channel_shuffle, lines"
    )
    assert not (tmp_path / "asked").exists()
