"""A proposal as files: model card, data set card, suite, network and picture, in one folder that a suite runs from."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from engine.errors import ConfigError, ModelError, OutputError
from engine.terms import March
from harness.cache import content_key
from harness.datasets.label_files import pictures
from harness.datasets.own_images import OwnImages
from harness.onboarding.contact_sheet import contact_sheet
from harness.onboarding.judging import Basis
from harness.onboarding.proposal import Proposal, card_name
from harness.zoo.cards import Labels

PICTURE = "what_the_network_sees.html"


def write_cards(proposal: Proposal, folder: Path, march: March) -> Path:
    """Write all files below ``folder``: they appear together, or not at all.

    Args:
        proposal: what they say.
        folder: new, or empty.
        march: that the suite is for.

    Returns:
        The suite.

    Raises:
        ConfigError: ``folder`` holds files.
        OutputError: it cannot be written.
    """
    check_free(folder)
    name, suite = proposal.name, f"{proposal.name}.yaml"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
            made = Path(temporary) / folder.name
            for part in ("zoo", "datasets"):
                (made / part).mkdir(parents=True)
            copy_network(proposal.network.path, made / "zoo" / f"{name}.onnx")
            digest = hashlib.sha256((made / "zoo" / f"{name}.onnx").read_bytes()).hexdigest()
            texts = {
                Path("zoo") / suite: _model_card(proposal, digest),
                Path("datasets") / f"{name}_images.yaml": _data_card(proposal),
                Path(suite): _suite(proposal, march),
                Path(PICTURE): contact_sheet(proposal),
            }
            for path, text in texts.items():
                (made / path).write_text(text, encoding="utf-8")
            if folder.is_dir():
                folder.rmdir()
            made.rename(folder)
    except OSError as error:
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

    Images are told apart by name, size and time of their last change.
    """
    labelled = [] if labels is None else [labels] if labels.is_file() else [p for p in labels.rglob("*") if p.is_file()]
    seen = [(path.as_posix(), path.stat()) for path in (*pictures(images.resolve()), *sorted(labelled))]
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


def _model_card(proposal: Proposal, digest: str) -> str:
    head, data, decision = proposal.head, proposal.data, proposal.decision
    metric: dict[str, Any] = {"name": head.metric}
    if options := {key: value for key, value in head.options.items() if key not in head.from_metadata}:
        metric["options"] = options
    if head.from_metadata:
        metric["metadata"] = dict(head.from_metadata)
    if proposal.labels is Labels.FLOAT:
        metric["labels"] = Labels.FLOAT.value
    scored = (
        "the labels"
        if proposal.labels is Labels.DATA
        else "outputs of the float model as labels; predictions that flip count as errors"
    )
    parts = [
        _block(
            f"Written by ptqlab init from {proposal.network.path.name}; edit it freely.",
            {
                "name": proposal.name,
                "version": 1,
                "task": head.task.value,
                "description": f"{proposal.network.path.name}: {head.kind}.",
                "source": {"bundled": f"{proposal.name}.onnx"},
                "digest": digest,
            },
        ),
        _block(_about_normalisation(proposal), {"input_parameters": decision.best.input_parameters(proposal.network)}),
        _block(
            "Calibration and evaluation never share an image.",
            {
                "dataset": {
                    "name": f"{proposal.name}_images",
                    "calibration": {"split": "calibration", "count": data.calibration},
                    "evaluation": {"split": "evaluation", "count": data.evaluation},
                }
            },
        ),
        _block(f"Head: {head.reason}.\nScored with {scored}.", {"metric": metric}),
        _block(
            "Of ONNX Runtime on the evaluation images. A sweep whose float score differs says REGRESSION.",
            {
                "float_score": {
                    "value": min(1.0, round(proposal.score.value, 6)),
                    "stderr": min(1.0, round(proposal.score.stderr, 6)),
                }
            },
        ),
        _block("", {"licence": "not stated", "origin": "ptqlab init", "tags": ["own"]}),
    ]
    return "\n".join(parts)


def _about_normalisation(proposal: Proposal) -> str:
    """Why the input is taken for what it is."""
    network, decision = proposal.network, proposal.decision
    lines = [f"Size and layout: {network.size_reason}; the 1 or 3 of the shape are the channels."]
    if decision.basis is Basis.CONVENTION:
        lines.append(f"Normalisation {decision.best}: not measured, {proposal.reason}.")
    else:
        lines.append(f"Normalisation {decision.best}, {decision.words}: of {len(decision.ranking)} by")
        lines[-1] += f" {'the labels' if decision.basis is Basis.LABELS else 'mirror images'}; {PICTURE} shows them."
        lines += [f"  {found.guess}: {found.value:.3f} on {found.images} images" for found in decision.ranking[:4]]
    lines.append("On the board a camera gives nv12: input_type_rt: nv12 measures what that costs.")
    return "\n".join(lines)


def _data_card(proposal: Proposal) -> str:
    source = proposal.source
    dataset = OwnImages(proposal.data)
    options = proposal.data.model_dump(mode="json", exclude_defaults=True)
    options["fit"] = proposal.data.fit.value
    parts = [
        _block(
            f"Written by ptqlab init. Labels: {source.reason}.",
            {
                "name": f"{proposal.name}_images",
                "version": 1,
                "adapter": "own_images",
                "description": f"{len(source.annotations.images)} images of {source.folder.name}.",
                "source": str(source.folder),
                "licence": "not stated",
            },
        ),
        _block("fit: crop, stretch or pad, as the network was trained; see docs/datasets.md.", {"options": options}),
        _block(
            "After a change of images or options: ptqlab digest NAME --write",
            {
                "image": dataset.image_format.model_dump(mode="json"),
                **({"classes": list(dataset.classes)} if dataset.classes else {}),
                "splits": {name: len(split) for name, split in dataset.splits.items()},
                "digest": dataset.digest,
                "determinants": dict(dataset.determinants),
            },
        ),
    ]
    return "\n".join(parts)


def _suite(proposal: Proposal, march: March) -> str:
    data = proposal.data
    in_time = int(_QUICK_SECONDS / max(proposal.network.seconds, 1e-4))
    quick = min(_QUICK_EVALUATION, max(_LEAST_EVALUATION, in_time))
    parts = [
        _block(
            f"Written by ptqlab init: a first sweep of {proposal.name}.",
            {"name": proposal.name, "version": 1, "models": proposal.name, "march": march.value},
        ),
        _block(
            f"For a quick first table; the card has {data.calibration} and {data.evaluation}.",
            {
                "calibration_samples": min(_QUICK_CALIBRATION, data.calibration),
                "evaluation_samples": min(quick, data.evaluation),
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


_QUICK_CALIBRATION, _QUICK_EVALUATION, _LEAST_EVALUATION = 50, 100, 40
_QUICK_SECONDS = 5.0
"""That the float model may take for the evaluation images of a first sweep."""
