"""A proposal as files: model card, data set card, suite, network and picture, in one folder that a suite runs from."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from engine.chips import March
from engine.errors import ConfigError, ModelError, OutputError
from harness.datasets.base import IMAGE, Dataset, ImageFormat
from harness.datasets.label_files import samples_in
from harness.files.cache import content_key
from harness.onboarding.contents import CardContents
from harness.onboarding.image_cards import PICTURE
from harness.onboarding.proposal import card_name
from harness.zoo.cards import Labels


def write_cards(contents: CardContents, folder: Path, march: March) -> Path:
    """Write all files below ``folder``: they appear together, or not at all.

    Args:
        contents: what they say.
        folder: new, or empty.
        march: that the suite is for.

    Returns:
        The suite.

    Raises:
        ConfigError: ``folder`` holds files.
        OutputError: it cannot be written.
    """
    check_free(folder)
    name, suite = contents.name, f"{contents.name}.yaml"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
            made = Path(temporary) / folder.name
            for part in ("zoo", "datasets"):
                (made / part).mkdir(parents=True)
            copy_network(contents.path, made / "zoo" / f"{name}.onnx")
            digest = hashlib.sha256((made / "zoo" / f"{name}.onnx").read_bytes()).hexdigest()
            texts = {
                Path("zoo") / suite: _model_card(contents, digest),
                Path("datasets") / f"{contents.data_name}.yaml": _data_card(contents, folder.resolve() / "datasets"),
                Path(suite): _suite(contents, march),
                **({Path(PICTURE): contents.page} if contents.page else {}),
            }
            for path, text in texts.items():
                (made / path).write_text(text, encoding="utf-8")
            if folder.is_dir():
                folder.rmdir()
            made.rename(folder)
    except OSError as error:
        check_free(folder)  # another process may have written it in between
        raise OutputError(f"{error.filename or folder}: cannot be written: {error.strerror}") from error
    return folder / suite


def check_free(folder: Path) -> None:
    """Refuse a folder that holds files.

    Raises:
        ConfigError: it does.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: is not empty; give another folder with --output")


def made_before(parent: Path, model: Path, images: Path, labels: Path | None, asked: str) -> Path:
    """The folder below ``parent`` for exactly this network, these images and labels, and what else was asked for.

    Images and arrays are told apart by name, size and time of their last change.
    """
    labelled = [] if labels is None else [labels] if labels.is_file() else [p for p in labels.rglob("*") if p.is_file()]
    shown = samples_in(images.resolve(), None if labels is None else labels.resolve())
    seen = [(path.as_posix(), path.stat()) for path in (*shown, *sorted(labelled))]
    files = [(name, found.st_size, found.st_mtime_ns) for name, found in seen]
    key = content_key(hashlib.sha256(model.read_bytes()).hexdigest(), files, asked, str(labels))
    return parent / f"{card_name(model)}-{key[:12]}"


def copy_network(source: Path, target: Path) -> None:
    """The network in one file: as it is, or with weights that lie outside it put in.

    Raises:
        ModelError: weights outside the file are missing, or too large for one file.
    """
    import onnx

    model = onnx.load(source, load_external_data=False)
    if not any(entry.external_data for entry in model.graph.initializer):
        shutil.copyfile(source, target)
        return
    try:
        whole = onnx.load(source)
        target.write_bytes(whole.SerializeToString())
    except (ValueError, onnx.checker.ValidationError, FileNotFoundError) as error:
        raise ModelError(f"{source}: its weights cannot be put into one file: {error}") from error


def _block(comment: str, content: Mapping[str, Any]) -> str:
    lines = "".join(f"# {line}\n" for line in comment.splitlines())
    return lines + yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=110)


def _model_card(contents: CardContents, digest: str) -> str:
    head, data = contents.head, contents.data
    metric: dict[str, Any] = {"name": head.metric}
    if options := {key: value for key, value in head.options.items() if key not in head.from_metadata}:
        metric["options"] = options
    if head.from_metadata:
        metric["metadata"] = dict(head.from_metadata)
    if contents.labels is Labels.FLOAT:
        metric["labels"] = Labels.FLOAT.value
    scored = (
        "the labels"
        if contents.labels is Labels.DATA
        else "outputs of the float model as labels; predictions that flip count as errors"
    )
    parts = [
        _block(
            f"Written by ptqlab init from {contents.path.name}; edit it freely.",
            {
                "name": contents.name,
                "version": 1,
                "task": head.task.value,
                "description": f"{contents.path.name}: {head.kind}.",
                "source": {"bundled": f"{contents.name}.onnx"},
                "digest": digest,
            },
        ),
        _block(contents.about_input, {"input_parameters": dict(contents.input_parameters)}),
        _block(
            "Calibration and evaluation never share a sample.",
            {
                "dataset": {
                    "name": contents.data_name,
                    "calibration": {"split": "calibration", "count": data.calibration},
                    "evaluation": {"split": "evaluation", "count": data.evaluation},
                }
            },
        ),
        _block(f"Head: {head.reason}.\nScored with {scored}.", {"metric": metric}),
        _block(
            "Of ONNX Runtime on the evaluation samples. A sweep whose float score differs says REGRESSION.",
            {
                "float_score": {
                    "value": min(1.0, round(contents.score.value, 6)),
                    "stderr": min(1.0, round(contents.score.stderr, 6)),
                }
            },
        ),
        _block("", {"licence": "not stated", "origin": contents.origin, "tags": ["own"]}),
    ]
    return "\n".join(parts)


def _data_card(contents: CardContents, place: Path) -> str:
    """The data set card, which will lie in ``place``: its paths are relative, so that both can be moved together."""
    data = contents.data
    options = {**data.options, "folder": _relative(data.folder, place)}
    if "labels" in options:
        options["labels"] = _relative(Path(options["labels"]), data.folder)
    dataset = data.dataset
    parts_of = {name: part.model_dump(mode="json") for name, part in dataset.parts.items()}
    parts = [
        _block(
            f"Written by ptqlab init. Labels: {data.reason}.",
            {
                "name": contents.data_name,
                "version": 1,
                "adapter": data.adapter,
                "description": data.description,
                "source": options["folder"],
                "licence": "not stated",
            },
        ),
        _block(data.about_options, {"options": options}),
        _block(
            "After a change of files or options: ptqlab digest NAME --write",
            {
                **({"image": parts_of[IMAGE]} if _is_one_image(dataset) else {"parts": parts_of}),
                **({"classes": list(data.classes)} if data.classes else {}),
                "splits": {name: len(split) for name, split in dataset.splits.items()},
                "digest": dataset.digest,
                "determinants": dict(dataset.determinants),
            },
        ),
    ]
    return "\n".join(parts)


def _relative(path: Path, place: Path) -> str:
    """``path`` from ``place``, in a form that no one takes for a path from elsewhere."""
    found = Path(os.path.relpath(path.resolve(), place)).as_posix()
    return found if found.startswith("..") else f"./{found}"


def _is_one_image(dataset: Dataset) -> bool:
    """Whether samples are images; the input of a network that is fed with arrays may be called ``image`` too."""
    return isinstance(dataset.parts.get(IMAGE), ImageFormat)


def _suite(contents: CardContents, march: March) -> str:
    data = contents.data
    parts = [
        _block(
            f"Written by ptqlab init: a first sweep of {contents.name}.",
            {"name": contents.name, "version": 1, "models": contents.name, "march": march.value},
        ),
        _block(
            f"For a quick first table; the card has {data.calibration} and {data.evaluation}.",
            {
                "calibration_samples": min(_QUICK_CALIBRATION, data.calibration),
                "evaluation_samples": min(_QUICK_EVALUATION, data.evaluation),
            },
        ),
        _block(
            "Axes: docs/suites.md. Others worth a try: per_channel: [false, true], max_percentile: [1.0, 0.9999],\n"
            "bias_correction: [false, true], int16: {top_k: 2}.",
            {"sweep": {"calibration_type": ["max", "kl"], "int16": ["none", "all"]}},
        ),
        "# Floors that a trial must reach, where you know them:\n# gates: {min_ratio: 0.99, min_agreement: 0.95}\n",
    ]
    return "\n".join(parts)


_QUICK_CALIBRATION, _QUICK_EVALUATION = 50, 100
"""Samples of a first sweep."""
