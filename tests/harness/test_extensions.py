"""The worked examples of CONTRIBUTING.md, as a user has them: one file or one package, and no line in ptqlab."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml

from harness.extensions import REGISTRIES
from tests.conftest import ROOT
from tests.harness.datasets.test_sweeps import SIDE, network

SECTION = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Extensions")[2].partition("\n## ")[0]
CODE = "\n\n".join(re.findall(r"```python\n(.*?)```", SECTION, re.S))
NAMES = {
    "calibration method": ("two_thirds", "TwoThirds"),
    "correction": ("no_biases", "NoBiases"),
    "metric": ("share_of_largest", "share_of_largest"),
    "dataset adapter": ("ramps", "Ramps"),
    "decoder": ("corners_first", "CornersFirst"),
    "page column": ("loss_per_ms", "LossPerMillisecond"),
    "engine": ("weights_only", "WeightsOnly"),
    "tracker": ("log_file", "LogFile"),
}
ABOUT = {"version": 1, "description": "made by a test", "licence": "none"}
DATASET = {
    **ABOUT,
    "name": "slopes",
    "adapter": "ramps",
    "source": "drawn",
    "image": {"height": SIDE, "width": SIDE, "colour": "rgb"},
    "splits": {"calibration": 6, "evaluation": 6},
    "digest": "0" * 64,
}
CARD = {
    **ABOUT,
    "name": "tiny",
    "task": "other",
    "source": {"bundled": "tiny.onnx"},
    "digest": "0" * 64,
    "input_parameters": {
        "input_name": "image",
        "input_type_train": "rgb",
        "input_layout_train": "NCHW",
        "input_shape": f"1x3x{SIDE}x{SIDE}",
        "norm_type": "data_scale",
        "scale_value": 0.01,
        "input_type_rt": "rgb",
        "input_layout_rt": "NCHW",
    },
    "dataset": {
        "name": "slopes",
        "calibration": {"split": "calibration", "count": 6},
        "evaluation": {"split": "evaluation", "count": 6},
    },
    "metric": {"name": "share_of_largest"},
    "float_score": {"value": 1.0, "stderr": 0.0},
    "origin": "made by a test",
}
SUITE = {
    "name": "mine",
    "version": 1,
    "models": "tiny",
    "march": "bayes-e",
    "sweep": {
        "calibration_type": ["max", "two_thirds"],
        "corrections": ["none", "no_biases"],
        "engine": ["bundled", "weights_only"],
    },
}
LABELS = ["max", "max-weights_only", "max-no_biases", "two_thirds", "two_thirds-no_biases"]


SESSION = """
import json, sys
from typer.testing import CliRunner
from harness.cli.main import app
done = [CliRunner().invoke(app, words) for words in json.loads(sys.argv[1])]
print(json.dumps([[each.exit_code, each.stdout, each.stderr, repr(each.exception)] for each in done]))
"""


def session(folder: Path, *commands: str, **variables: str) -> list[str]:
    """What commands print that run in ``folder``, one after the other, in a process of their own; all succeed."""
    own = {"PTQLAB_SUITES": str(folder), "PTQLAB_DATASETS": str(folder / "datasets"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SESSION, json.dumps([command.split() for command in commands])],
        cwd=folder,
        env={**os.environ, **own, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for command, (code, *texts) in zip(commands, found, strict=True):
        assert code == 0, f"{command}: {texts}"
    return [stdout for _, stdout, *_ in found]


def write(folder: Path, files: Mapping[str, Any]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """What a user has: one module, two cards, a network and a suite."""
    write(tmp_path, {"my_lab.py": CODE, "datasets/slopes.yaml": DATASET, "zoo/tiny.yaml": CARD, "mine.yaml": SUITE})
    model = onnx.load_from_string(network(3, SIDE, dense=False))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.linspace(-1, 1, 8, dtype=np.float32), "b0"))
    model.graph.node[0].input.append("b0")
    onnx.save(model, tmp_path / "zoo/tiny.onnx")
    return tmp_path


def test_every_kind_has_an_example() -> None:
    assert [registry.kind for registry in REGISTRIES] == list(NAMES)
    for name, _ in NAMES.values():
        assert f'.register("{name}")' in CODE
    assert all(f"`{registry.group}`" in SECTION for registry in REGISTRIES)


def rows(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "work/sweeps/mine/trials.csv").open(encoding="utf-8") as table:
        return {row["settings"]: row for row in csv.DictReader(table)}


RUN = "run mine.yaml --tracker log_file --workdir work --executor serial"


@pytest.mark.nightly
def test_a_file_with_all_of_them_runs_in_a_sweep(lab: Path) -> None:
    plugin = {"PTQLAB_PLUGINS": "my_lab.py"}
    score = "digest tiny --write --score"
    listed, *_ = session(lab, "ls extensions --json", "digest slopes --write", score, RUN, **plugin)
    assert [(row["kind"], row["name"]) for row in json.loads(listed)] == [
        (kind, name) for kind, (name, _) in NAMES.items()
    ]
    found = rows(lab)
    assert sorted(found) == sorted(LABELS)
    assert not any(row["message"] for row in found.values())
    assert len({row["cosine.output"] for row in found.values()}) == len(LABELS), "each setting changes something"
    assert found["max"]["loss_per_ms"]
    assert not found["max-weights_only"]["loss_per_ms"], "an engine without latency has no such figure"
    page = (lab / "work/sweeps/mine/report.html").read_text(encoding="utf-8")
    assert "Δ/ms: points of accuracy lost per estimated millisecond" in page
    config = (lab / "work/trials" / found["two_thirds-no_biases"]["key"] / "config.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(config)["calibration_parameters"]["corrections"] == "no_biases"
    assert yaml.safe_load(config)["calibration_parameters"]["calibration_type"] == "two_thirds"
    lines = (lab / "work/sweeps.log").read_text(encoding="utf-8").splitlines()
    assert lines[0].endswith(f": {len(LABELS)} trials")
    assert len([line for line in lines if line.startswith("trial tiny/bayes-e/")]) == len(LABELS)
    assert lines[-1] == "end: NO GATE"
    before = keys(lab)
    session(lab, RUN, **plugin)
    assert summary(lab)["reused"] == len(LABELS)
    (lab / "my_lab.py").write_text(CODE + "\n", encoding="utf-8")
    session(lab, "digest slopes --write", RUN, **plugin)
    assert summary(lab)["reused"] == 0, "the source is part of the key"
    assert before < keys(lab)
    assert len(keys(lab)) == 2 * len(LABELS)


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "work/sweeps/mine/sweep.json").read_text(encoding="utf-8"))
    return found


def keys(folder: Path) -> set[str]:
    return {path.name for path in (folder / "work/trials").iterdir()}


def test_a_package_registers_them_by_entry_points_alone(lab: Path, tmp_path: Path) -> None:
    place = tmp_path / "site"
    groups = {
        registry.group: "\n".join((f"[{registry.group}]", "{} = my_package:{}".format(*NAMES[registry.kind])))
        for registry in REGISTRIES
    }
    write(
        place,
        {
            "my_package.py": re.sub(r"@\w+\.register\(.*\)\n", "", CODE),
            "my_package-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n",
            "my_package-1.0.dist-info/entry_points.txt": "\n\n".join(groups.values()),
        },
    )
    (lab / "my_lab.py").unlink()
    (listed,) = session(lab, "ls extensions --json", PYTHONPATH=f"{ROOT}:{place}")
    assert [(row["kind"], row["name"], row["from"]) for row in json.loads(listed)] == [
        (kind, name, f"my_package.{value}") for kind, (name, value) in NAMES.items()
    ]
