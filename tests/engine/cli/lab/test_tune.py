"""``ptqlab tune`` on a bundled network: the table, the accuracies of labelled data, the fragment."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from typer.testing import CliRunner

from engine.calibrate.data.samples import halves
from engine.cli.lab.tune import CEILING, CHOSEN, FLOAT, INT8
from engine.config import parse_config
from engine.convert import convert
from harness.cli.main import app
from harness.zoo.cards import load_card
from tests.card_images import trained
from tests.configurations import of_card
from tests.e2e.field_cases import prepare

CARD = load_card("mnist_lenet")
SCORED = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``c.yaml``, ``calibration/``, ``scored/`` and ``labels.csv``."""
    folder = tmp_path_factory.mktemp("tune")
    data = CARD.open_dataset()
    for name, split, count in (("calibration", "calibration", 8), ("scored", "evaluation", SCORED)):
        (folder / name).mkdir()
        for index, image in enumerate(trained(CARD, data.split(split).images(0, count))):
            np.save(folder / name / f"{index:03}.npy", image[None])
    labels = data.split("evaluation").targets(0, SCORED)
    rows = [f"{index:03},{int(label)}" for index, label in enumerate(labels)]
    (folder / "labels.csv").write_text("\n".join(rows))
    (folder / "c.yaml").write_text(yaml.safe_dump(of_card(CARD, folder / "calibration")))
    return folder


def run(folder: Path, *arguments: str, code: int = 0) -> str:
    command = ["tune", str(CARD.model_path()), "-c", str(folder / "c.yaml"), "--trials", "4", *arguments]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == code, result.output
    return result.output


def rows(shown: str) -> dict[str, list[str]]:
    found = {}
    for line in shown.splitlines():
        name = next((name for name in (FLOAT, INT8, CEILING, CHOSEN) if line.startswith(name.ljust(12))), None)
        if name is not None:
            found[name] = line.removeprefix(name).split()
    return found


def test_accuracies_of_labelled_data(folder: Path) -> None:
    given = ("--data", str(folder / "scored"), "--labels", str(folder / "labels.csv"))
    shown = run(folder, *given, "-o", str(folder / "fragment.yaml"), "--latency", "1e9")
    found = rows(shown)
    assert float(found[FLOAT][0]) >= 0.9
    for name in (INT8, CEILING, CHOSEN):
        accuracy, ratio = map(float, found[name][:2])
        assert ratio == pytest.approx(accuracy / float(found[FLOAT][0]), abs=1e-3)
        assert accuracy == pytest.approx(round(accuracy * SCORED) / SCORED, abs=1e-4)
    # All that is granted in int16 need not be the best: a node of int16 may cost its neighbours a requantisation.
    assert float(found[CHOSEN][2]) >= float(found[CEILING][2])
    assert all(0.9 < float(found[name][3]) <= 1 for name in (INT8, CEILING, CHOSEN))
    gains = [float(found[CHOSEN][column]) - float(found[INT8][column]) for column in (2, 3)]
    assert f"cosine over int8: {gains[0]:+.6f} on the samples that chose the mix, {gains[1]:+.6f} on others" in shown
    fragment = yaml.safe_load((folder / "fragment.yaml").read_text())
    assert len(fragment["model_parameters"]["node_info"]) == int(found[CHOSEN][-2])


def test_without_labels_the_table_has_similarities_only(folder: Path) -> None:
    shown = run(folder, "--latency", "0", "--json")
    as_json = json.loads(shown[shown.index("{\n") :])
    assert as_json["accuracies"] == as_json["fragment"] == {}
    assert as_json["mixes"][CHOSEN] == as_json["mixes"][INT8]
    found = rows(run(folder, "--latency", "0"))
    assert f"{as_json['mixes'][INT8]['cosine']:.6f}" == found[INT8][0]
    assert FLOAT not in found
    assert 0.9 < float(found[INT8][0]) <= 1
    assert found[CHOSEN] == found[INT8]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("group", "given"),
    [
        ("calibration_parameters", {"optimization": "cross_layer_equalization;integer_bias_correction"}),
        ("model_parameters", {"output_nodes": "{first}"}),
    ],
)
def test_the_pasted_fragment_gives_the_chosen_row(folder: Path, group: str, given: dict[str, str]) -> None:
    first = next(node.name for node in onnx.load(CARD.model_path()).graph.node if node.op_type == "Conv")
    settings = of_card(CARD, folder / "calibration", working_dir=str(folder / "out"))
    settings[group] |= {key: text.format(first=first) for key, text in given.items()}
    (folder / "d.yaml").write_text(yaml.safe_dump(settings))
    fragment = folder / "e.yaml"
    shown = run(folder, "-c", str(folder / "d.yaml"), "-o", str(fragment), "--latency", "1e9", "--samples", "8")
    for name, parameters in yaml.safe_load(fragment.read_text()).items():
        settings[name] |= parameters
    result = convert(parse_config(settings))
    selection, test, *_, latency, _cpu_us, _int16, _cpu = rows(shown)[CHOSEN]
    both = (float(selection) + float(test)) / 2
    assert both == pytest.approx(np.mean([row.distance.cosine for row in result.integer_outputs]), abs=2e-6)
    assert float(latency) == pytest.approx(result.performance.latency_us, abs=0.5)
    assert result.refusals == ()


def test_labels_of_calibration_data_count_where_nothing_was_chosen(folder: Path) -> None:
    right = folder / "right.csv"
    labels = CARD.open_dataset().split("calibration").targets(0, 8)
    _, test = halves(8, 16)
    answers = [int(label) if index in test else (int(label) + 1) % 10 for index, label in enumerate(labels)]
    right.write_text("\n".join(f"{index:03},{answer}" for index, answer in enumerate(answers)))
    found = rows(run(folder, "--labels", str(right), "--latency", "0"))
    assert float(found[FLOAT][0]) == 1.0


def test_too_few_samples_for_halves_are_said(folder: Path) -> None:
    few = folder / "few"
    few.mkdir()
    for index in range(3):
        shutil.copyfile(folder / "calibration" / f"{index:03}.npy", few / f"{index:03}.npy")
    (folder / "few.yaml").write_text(yaml.safe_dump(of_card(CARD, few)))
    shown = run(folder, "-c", str(folder / "few.yaml"), "--latency", "0")
    assert rows(shown)[CHOSEN][1:4] == ["-", "-", "-"]
    assert "there are too few samples to report on others" in shown


def test_a_choice_with_a_broken_output_is_named(tmp_path: Path) -> None:
    """Scores that share a scale with boxes stay 0 in a budget in which no node fits in int16."""
    config = prepare(tmp_path, "boxes_and_scores.onnx", calibration__optimization="set_model_output_int8")
    command = ["tune", str(tmp_path / "net.onnx"), "-c", str(config), "--trials", "2"]
    result = CliRunner().invoke(app, [*command, "--latency", "0"])
    assert result.exit_code == 0, result.output
    assert "WARNING: the chosen mix: Output y of the integer model is broken: 8 of 12 slices of axis 1" in result.output
    assert "It breaks at node cat (Concat)" in result.output
    result = CliRunner().invoke(app, [*command, "--latency", "0", "--json"])
    assert "8 of 12 slices" in json.loads(result.stdout)["broken"][0]
    result = CliRunner().invoke(app, [*command, "--latency", "1000"])
    assert "is broken" not in result.output


def test_labels_that_do_not_fit_are_found_before_the_search(folder: Path) -> None:
    wrong = folder / "wrong.csv"
    wrong.write_text("\n".join(f"{index:03},12" for index in range(8)))
    result = CliRunner().invoke(
        app, ["tune", str(CARD.model_path()), "-c", str(folder / "c.yaml"), "--labels", str(wrong)]
    )
    assert "top1 needs labels from 0 to 9" in f"{result.output}{result.exception}"
    assert "us; all int16" not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "scored"), "also give labels"),
        (("--metric", "top5"), "--metric: also give labels"),
        (("--by-metric",), "--by-metric: also give labels"),
        (("--data", "none", "--labels", "labels.csv"), "does not exist"),
        (("--labels", "labels.csv", "--metric", "top7"), "metric 'top7' is unknown"),
    ],
)
def test_mistakes(folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str) -> None:
    monkeypatch.chdir(folder)
    command = ["tune", str(CARD.model_path()), "-c", "c.yaml", *arguments]
    result = CliRunner().invoke(app, command)
    assert result.exit_code != 0
    assert message in f"{result.output}{result.exception}"


def test_the_metric_chooses_where_asked(folder: Path) -> None:
    labelled = ("--labels", str(folder / "labels.csv"), "--data", str(folder / "scored"))
    shown = rows(run(folder, *labelled, "--by-metric"))
    assert 0 <= float(shown[CHOSEN][0]) <= 1
    correct = 15 * float(shown[FLOAT][0])  # on half of 30
    assert correct == pytest.approx(round(correct), abs=1e-2)
