"""Nights in which something was changed on purpose, and what the verdict calls it: ``python -m tests.e2e.planted``.

All nights run from one copy of the packages, so that a change of a source is a change of the engine, and only one file
at a time is compiled anew. Two small networks: digits in gray, and one that tells red, green and blue images apart.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import typer
import yaml
from onnx import helper, numpy_helper
from PIL import Image

from harness.datasets.labelled_folder import LabelledFolder, LabelledFolderOptions

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("engine", "harness", "suites", "datasets", "reports")
SUITES = ("gray", "rgb")
_SIDE = 16
"""Pixels of a side of a coloured image."""
_TOO_LONG = 900.0


@dataclass
class Laboratory:
    """A copy of ptqlab with a user's own suites, and a first night of each that was promoted.

    Attributes:
        root: holds everything.
        environment: of the commands, besides this process's own.
        begun: the suites whose first night has run.
    """

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)

    @classmethod
    def made(cls, root: Path) -> Laboratory:
        """A laboratory in the empty folder ``root``; sources keep their times, so that what is compiled stays valid."""
        for package in PACKAGES:
            shutil.copytree(ROOT / package, root / "ptqlab" / package)
        laboratory = cls(root)
        write_colours(root)
        for suite in SUITES:
            laboratory.write_suite(suite)
        return laboratory

    def begin(self, suite: str) -> None:
        """The first night of ``suite``, unless it has run."""
        if suite in self.begun:
            return
        first = self.night(suite, "first")
        if first.returncode:
            raise RuntimeError(f"{suite}: the first night failed: {first.stdout}{first.stderr}")
        self.begun.add(suite)

    def write_suite(self, suite: str) -> None:
        """A user's suite with its card and model."""
        zoo = self.root / "mine" / "zoo"
        zoo.mkdir(parents=True, exist_ok=True)
        card = yaml.safe_load((ROOT / "suites" / "zoo" / "mnist_lenet.yaml").read_text())
        model = zoo / f"{suite}_net.onnx"
        if suite == "gray":
            shutil.copyfile(ROOT / "suites" / "zoo" / "mnist_lenet.onnx", model)
        else:
            onnx.save(colour_network(), model)
            card["input_parameters"] |= {
                "input_type_train": "rgb",
                "input_type_rt": "rgb",
                "input_shape": f"1x3x{_SIDE}x{_SIDE}",
            }
            card["dataset"] = {
                "name": "colours",
                "calibration": {"split": "calibration", "count": 8},
                "evaluation": {"split": "evaluation", "count": 90},
            }
            card["float_score"] = {"value": colour_score(self.root), "stderr": 0.05}
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
        card |= {"name": f"{suite}_net", "source": {"bundled": model.name}, "digest": digest}
        (zoo / f"{suite}_net.yaml").write_text(yaml.safe_dump(card))
        evaluation = {"gray": 200, "rgb": 90}[suite]
        content = {
            "name": suite,
            "version": 1,
            "models": [f"{suite}_net"],
            "calibration_samples": 8,
            "evaluation_samples": evaluation,
            "sweep": {"calibration_type": ["max"]},
        }
        (self.root / "mine" / f"{suite}.yaml").write_text(yaml.safe_dump(content))

    def night(self, suite: str, workdir: str, *options: str) -> subprocess.CompletedProcess[str]:
        """``ptqlab nightly`` in a folder of results."""
        return self.ptqlab("nightly", suite, "--workdir", str(self.root / workdir), "--executor", "serial", *options)

    def ptqlab(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of the copy."""
        program = "from harness.cli.start import ptqlab; ptqlab()"
        path = [self.environment.get("PYTHONPATH"), str(self.root / "ptqlab")]
        environment = {
            **os.environ,
            "COLUMNS": "160",
            **self.environment,
            "PTQLAB_SUITES": str(self.root / "mine"),
            "PTQLAB_DATASETS": str(self.root / "data"),
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
        }
        return subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env=environment,
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=_TOO_LONG,
            check=False,
        )

    def explanation(self, suite: str, workdir: str) -> dict[str, Any]:
        """Verdict and explanation that the last night of ``suite`` left."""
        summary = json.loads((self.root / workdir / "sweeps" / suite / "sweep.json").read_text())
        found: dict[str, Any] = summary["explanation"]
        return found

    def card(self, suite: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the card of a suite's network."""
        path = self.root / "mine" / "zoo" / f"{suite}_net.yaml"
        card = yaml.safe_load(path.read_text())
        change(card)
        path.write_text(yaml.safe_dump(card))

    def source(self, name: str, old: str, new: str) -> None:
        """Change a source of the copy."""
        path = self.root / "ptqlab" / name
        text = path.read_text()
        if text.count(old) != 1:
            raise LookupError(f"{name}: {old!r} is there {text.count(old)} times")
        path.write_text(text.replace(old, new))


def colour_network() -> onnx.ModelProto:
    """A network whose three outputs are how red, green and blue an image is."""
    random = np.random.RandomState(0)
    first = random.normal(0, 0.002, (6, 3, 3, 3)).astype(np.float32)
    second = random.normal(0, 0.002, (3, 6, 3, 3)).astype(np.float32)
    for colour in range(3):
        first[colour, colour, 1, 1] = second[colour, colour, 1, 1] = 1.0
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "first"], ["a"], name="first_conv", pads=[1] * 4),
            helper.make_node("Relu", ["a"], ["b"], name="relu"),
            helper.make_node("Conv", ["b", "second"], ["c"], name="second_conv", pads=[1] * 4),
            helper.make_node("GlobalAveragePool", ["c"], ["d"], name="mean"),
            helper.make_node("Flatten", ["d"], ["scores"], name="flatten"),
        ],
        "colours",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, (1, 3, _SIDE, _SIDE))],
        [helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, (1, 3))],
        [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def colour_score(root: Path) -> float:
    """Share of the evaluation images that the network names right."""
    folder = root / "data" / "colours" / "evaluation"
    images = np.stack([np.asarray(Image.open(folder / f"{index}.png")) for index in range(90)])
    session = onnxruntime.InferenceSession(colour_network().SerializeToString(), providers=["CPUExecutionProvider"])
    fed = (images.transpose(0, 3, 1, 2) / 255).astype(np.float32)
    scores = [session.run(None, {"image": image[np.newaxis]})[0] for image in fed]
    return float(np.mean(np.concatenate(scores).argmax(axis=1) == np.arange(90) % 3))


def write_colours(root: Path) -> None:
    """Images that are a little redder, greener or bluer than gray, as a user's own data set."""
    folder, random = root / "data" / "colours", np.random.RandomState(1)
    counts = {"calibration": 9, "evaluation": 90}
    for split, count in counts.items():
        (folder / split).mkdir(parents=True)
        rows = ["file,label"]
        for index in range(count):
            pixels = random.normal(110, 30, (_SIDE, _SIDE, 3))
            pixels[..., index % 3] += 12
            image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
            image.save(folder / split / f"{index}.png")
            rows.append(f"{index}.png,{index % 3}")
        (folder / split / "labels.csv").write_text("\n".join(rows))
    options = {"folder": str(folder), "folders": {name: name for name in counts}, "crop": _SIDE, "classes": 3}
    card = {
        "name": "colours",
        "version": 1,
        "adapter": "labelled_folder",
        "description": "drawn",
        "source": "drawn",
        "licence": "none",
        "options": options,
        "image": {"height": _SIDE, "width": _SIDE, "colour": "rgb"},
        "splits": counts,
        "digest": LabelledFolder(LabelledFolderOptions.model_validate(options)).digest,
    }
    (root / "data" / "colours.yaml").write_text(yaml.safe_dump(card))


@dataclass(frozen=True)
class Plant:
    """A change, and what must be said of it.

    Attributes:
        name: of what was planted.
        suite: that it is planted in.
        plant: does it.
        verdict: of the night.
        exit_code: of ``ptqlab nightly``.
        kinds: kinds of cause that must be named among what was put in, and no others.
        words: that the causes must hold.
    """

    name: str
    suite: str
    plant: Callable[[Laboratory], None]
    verdict: str
    exit_code: int
    kinds: tuple[str, ...]
    words: tuple[str, ...] = ()


def other_weights(laboratory: Laboratory) -> None:
    """Another weight file, for which the card was written anew."""
    path = laboratory.root / "mine" / "zoo" / "gray_net.onnx"
    model = onnx.load(path)
    weight = next(tensor for tensor in model.graph.initializer if len(tensor.dims) == 4)
    values = numpy_helper.to_array(weight).copy()
    values[::2] *= 0.05
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    onnx.save(model, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    laboratory.card("gray", lambda card: card.update(digest=digest))


def other_calibration_images(laboratory: Laboratory) -> None:
    laboratory.card("gray", lambda card: card["dataset"].update(calibration={"split": "train", "count": 8}))


def bgr(laboratory: Laboratory) -> None:
    laboratory.card("rgb", lambda card: card["input_parameters"].update(input_type_train="bgr", input_type_rt="bgr"))


def wrong_mean(laboratory: Laboratory) -> None:
    def change(card: dict[str, Any]) -> None:
        card["input_parameters"].update(norm_type="data_mean_and_scale", mean_value="128")

    laboratory.card("gray", change)


def another_rounding(laboratory: Laboratory) -> None:
    laboratory.source("engine/ops/core/derive.py", "np.clip(round_away(ratio)", "np.clip(np.floor(ratio)")


def other_onnxruntime(laboratory: Laboratory) -> None:
    faked = laboratory.root / "faked" / "onnxruntime-999.0.dist-info"
    faked.mkdir(parents=True)
    (faked / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime\nVersion: 999.0\n")
    laboratory.environment["PYTHONPATH"] = str(faked.parent)


def node_on_the_cpu(laboratory: Laboratory) -> None:
    laboratory.source(
        "engine/place/devices.py", "if rule is None or (", 'if node.op_type == "MaxPool" or rule is None or ('
    )


def other_data_set(laboratory: Laboratory) -> None:
    laboratory.card("gray", lambda card: card["dataset"].update(other_digits()))


def other_digits() -> dict[str, Any]:
    """Digits of another source, for a network that was trained on MNIST."""
    calibration, evaluation = (
        {"split": name, "count": count} for name, count in (("calibration", 8), ("evaluation", 200))
    )
    return {"name": "digits", "calibration": calibration, "evaluation": evaluation, "train": None}


PLANTS = (
    Plant("another weight file", "gray", other_weights, "REGRESSION", 12, ("model file",), ("float fell too",)),
    Plant("other calibration images", "gray", other_calibration_images, "REGRESSION", 12, ("calibration data",), ()),
    Plant(
        "BGR for RGB",
        "rgb",
        bgr,
        "REGRESSION",
        12,
        ("preprocessing",),
        ("input_type_train rgb → bgr", "float fell too"),
    ),
    Plant("a wrong mean", "gray", wrong_mean, "REGRESSION", 12, ("preprocessing",), ("mean_value not given → 128",)),
    Plant(
        "one rounding of the engine",
        "gray",
        another_rounding,
        "REGRESSION",
        12,
        ("engine",),
        ("engine/ops/core/derive.py", "quantized differs first"),
    ),
    Plant("another ONNX Runtime", "gray", other_onnxruntime, "PASS", 0, ("tools",), ("→ 999.0",)),
    Plant(
        "a node forced to the CPU",
        "gray",
        node_on_the_cpu,
        "REGRESSION",
        12,
        ("engine",),
        ("engine/place/devices.py", "newly on the CPU"),
    ),
    Plant("another data set", "gray", other_data_set, "REGRESSION", 12, ("calibration data", "evaluation data"), ()),
)


@dataclass(frozen=True)
class Found:
    """What a night said of a plant.

    Attributes:
        exit_code: of ``ptqlab nightly``.
        verdict: first word of the terminal's last lines.
        shared: causes that the whole sweep shares.
        trial: the first trial that does not pass, with headline, causes and flips; empty where all pass.
        bisection: what it found.
        printed: by ``ptqlab why``.
        page: the report.
    """

    exit_code: int
    verdict: str
    shared: tuple[Mapping[str, str], ...]
    trial: Mapping[str, Any]
    bisection: Mapping[str, str] | None
    printed: str
    page: str


def planted(laboratory: Laboratory, plant: Plant, budget: float = 0.0) -> Found:
    """Plant it, run the night on a copy of the first one's results, ask why, and take it back."""
    laboratory.begin(plant.suite)
    kept = laboratory.root / "kept"
    for name in ("mine", "ptqlab"):
        shutil.copytree(laboratory.root / name, kept / name)
    workdir = "night"
    shutil.copytree(laboratory.root / "first", laboratory.root / workdir)
    try:
        plant.plant(laboratory)
        uri = f"sqlite:///{laboratory.root / workdir / 'mlflow.db'}"
        finished = laboratory.night(plant.suite, workdir, "--tracking-uri", uri, "--explain-budget", str(budget))
        why = laboratory.ptqlab("why", plant.suite, "--workdir", str(laboratory.root / workdir))
        if not why.stdout:
            raise RuntimeError(f"{plant.name}: {finished.stdout}{finished.stderr}{why.stderr}")
        explanation = laboratory.explanation(plant.suite, workdir)
        page = (laboratory.root / workdir / "sweeps" / plant.suite / "report.html").read_text()
    finally:
        laboratory.environment.clear()
        shutil.rmtree(laboratory.root / workdir)
        for name in ("mine", "ptqlab"):
            shutil.rmtree(laboratory.root / name)
            shutil.move(kept / name, laboratory.root / name)
    trials = explanation["trials"]
    return Found(
        exit_code=finished.returncode,
        verdict=why.stdout.partition(":")[0],
        shared=tuple(explanation["shared"]),
        trial=trials[0] if trials else {},
        bisection=explanation["bisection"],
        printed=why.stdout,
        page=page,
    )


def main() -> None:
    """The table of all plants, as Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        laboratory = Laboratory.made(Path(folder))
        typer.echo("| planted | verdict | exit code | named | effects |\n|---|---|---|---|---|")
        for plant in PLANTS:
            found = planted(laboratory, plant)
            causes = found.trial.get("causes", found.shared)
            named = found.trial.get("headline") or "; ".join(f"{cause['kind']}: {cause['text']}" for cause in causes)
            effects = "; ".join(f"{cause['kind']}: {cause['text']}" for cause in causes)
            typer.echo(f"| {plant.name} | {found.verdict} | {found.exit_code} | {named} | {effects} |")


if __name__ == "__main__":
    main()
