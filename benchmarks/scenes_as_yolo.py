"""The bundled scenes as YOLO trainers read them: ``python -m benchmarks.scenes_as_yolo FOLDER``.

Writes ``images/train``, ``images/val``, the labels beside them and ``data.yaml``; the same options always give the same
scenes. ``val`` holds scenes of the split ``evaluation``, whose digits no training scene shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml
from PIL import Image

from harness.datasets.base import SceneTarget, Split
from harness.datasets.scenes import SceneOptions, Scenes


def export(
    folder: Annotated[Path, typer.Argument(help="New folder.")],
    train: Annotated[int, typer.Option(min=1, help="Training scenes.")] = 2000,
    val: Annotated[int, typer.Option(min=1, help="Validation scenes.")] = 400,
    size: Annotated[int, typer.Option(min=32, help="Height and width of a scene in pixels.")] = 160,
) -> None:
    """Write training and validation scenes with their labels, and the data YAML."""
    scenes = Scenes(SceneOptions(size=size, smallest=size // 5, largest=size // 2, train=train, evaluation=val))
    for name, split in {"train": scenes.splits["train"], "val": scenes.splits["evaluation"]}.items():
        _write(folder, name, split, size)
    content = {"path": str(folder.resolve()), "train": "images/train", "val": "images/val", "names": _NAMES}
    (folder / "data.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


_NAMES = dict(enumerate(("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")))


def _write(folder: Path, name: str, split: Split, size: int) -> None:
    images, labels = folder / "images" / name, folder / "labels" / name
    images.mkdir(parents=True)
    labels.mkdir(parents=True)
    for index in range(len(split)):
        Image.fromarray(split.images(index, index + 1)[0]).save(images / f"{index:05}.png")
        (target,) = split.targets(index, index + 1)
        if not isinstance(target, SceneTarget):
            raise TypeError(f"{name} {index}: no boxes")
        lines = [
            f"{label} {(left + right) / 2 / size:.6f} {(top + bottom) / 2 / size:.6f} "
            f"{(right - left) / size:.6f} {(bottom - top) / size:.6f}\n"
            for label, (left, top, right, bottom) in zip(target.classes, target.boxes, strict=True)
        ]
        (labels / f"{index:05}.txt").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    typer.run(export)
