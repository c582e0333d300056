"""From an ONNX file and a folder of arrays to all that cards need: nothing is normalised."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.chips import DEFAULT_MARCH, March
from engine.config import InputParameters
from engine.errors import CalibrationDataError
from engine.terms import InputType, Layout, NormType
from harness.backends.outputs import Array, images_first
from harness.datasets import Targets, one_by_one
from harness.datasets.annotations import LabelFormat
from harness.datasets.base import Split
from harness.datasets.own_arrays import OwnArrays, OwnArraysOptions, array_folders
from harness.metrics import open_metric
from harness.onboarding.array_network import ArrayNetwork, read_array_network
from harness.onboarding.contents import CardContents, DataContents, FloatRun
from harness.onboarding.convertible import refuse_unconvertible
from harness.onboarding.dictionary import with_blank, with_characters
from harness.onboarding.head_guess import HeadGuess
from harness.onboarding.heads import guess_head
from harness.onboarding.judging import by_labels
from harness.onboarding.map_heads import text_map
from harness.onboarding.network_file import Runner, runs_at_once
from harness.onboarding.numbering import numbering_note
from harness.onboarding.proposal import (
    TEXT_METRICS,
    card_name,
    chance_note,
    first_classes,
    label_classes,
    labelled_for,
    labels_fit,
    moved,
    score_of_float,
    split_sizes,
)
from harness.onboarding.sources import DataSource, find_source
from harness.zoo.cards import Labels, TaskKind


def propose_arrays(
    model: Path,
    folder: Path,
    task: TaskKind | None = None,
    dictionary: Path | None = None,
    labels: Path | None = None,
    march: March = DEFAULT_MARCH,
    column: str = "",
) -> tuple[CardContents, tuple[str, ...]]:
    """Contents of the cards, and what the user should know.

    Args:
        model: ONNX file.
        folder: of ``.npy`` files, one per sample; of a network with several inputs, a sub-folder per input.
        task: what the network is for; None to guess, :attr:`TaskKind.OTHER` to compare outputs only.
        dictionary: characters of a network that reads text; None to look for them.
        labels: file or folder of labels that name the arrays (of the first input); None to score against the float
            model.
        march: that the network is to be converted for.
        column: headline of the labels or texts of a table; empty to look for it.

    Raises:
        PtqlabError: the file cannot be converted, it or the arrays are wrong, or of a kind that cards do not know.
    """
    folder = folder.resolve()
    network = read_array_network(model, folder)
    refuse_unconvertible(model, {name: (1, *part.shape) for name, part in network.inputs.items()}, march)
    head = guess_head(network, task)
    notes = network.remarks
    source = None
    if labels is not None:
        finds_text = text_map(network) is not None and task is not TaskKind.SEGMENTATION
        first = array_folders(folder, list(network.inputs))[next(iter(network.inputs))]
        source = find_source(first, labels, "hmean" if finds_text else head.metric, column)
        head = guess_head(network, task, label_classes(source), labelled_for(source))
    options = _options(network, folder, source)
    dataset, runner = OwnArrays(options), Runner(model)
    if head.metric in TEXT_METRICS:
        head, said = with_characters(head, network, dictionary, (model.resolve().parent, folder))
        notes = (*notes, *said)
    calibration = _outputs(dataset.split("calibration"), runner)
    if head.metric in TEXT_METRICS:
        head = with_blank(head, calibration[0])
    metric = open_metric(head.metric, head.options)
    fits, said = (False, ()) if source is None else labels_fit(source, head)
    outputs = _outputs(dataset.split("evaluation"), runner)
    targets: Targets | None = None
    if source is not None:
        notes = (*notes, *said, *source.annotations.remarks)
    if source is not None and fits:
        tried = first_classes(source, head)
        right = dataset.split("calibration").targets()
        _, _, number = by_labels(metric, {by: moved(right, by) for by in tried})(calibration, [], len(right))
        options = options.model_copy(update={"first_class": number})
        dataset = OwnArrays(options)
        targets = dataset.split("evaluation").targets()
    score = score_of_float(metric, targets, outputs)
    if targets is not None:
        notes = (*notes, *chance_note(head, score, targets, ""), *numbering_note(head, metric, score, outputs, targets))
    data = DataContents(
        adapter="own_arrays",
        options=options.model_dump(mode="json", exclude_defaults=True),
        dataset=dataset,
        calibration=options.calibration,
        evaluation=options.evaluation,
        folder=folder,
        description=f"{network.samples if source is None else len(source.annotations.images)} arrays of {folder.name}.",
        reason="none, arrays are fed as they are" if source is None else source.reason,
        about_options="parts: shape and type of every input, without the batch.",
        classes=dataset.classes,
    )
    contents = CardContents(
        name=card_name(model),
        path=model,
        head=_named(head, network),
        labels=Labels.FLOAT if targets is None else Labels.DATA,
        score=score,
        float_run=FloatRun(outputs, network.seconds / runs_at_once()),
        input_parameters=_input_parameters(network),
        about_input="Arrays are fed as they are: no mean, no scale, no change of layout.",
        data=data,
    )
    return contents, notes


def _named(head: HeadGuess, network: ArrayNetwork) -> HeadGuess:
    """``head``, with the reason for looking at outputs only where the inputs are no image."""
    if all(network.size) or head.metric != "cosine":
        return head
    return replace(head, reason=head.reason.replace("no known head has", "the inputs are no image, and no head has"))


def _options(network: ArrayNetwork, folder: Path, source: DataSource | None) -> OwnArraysOptions:
    found = network.samples if source is None else len(source.annotations.images)
    if found < 2:
        raise CalibrationDataError(f"{folder}: holds one sample; calibration and evaluation need one each")
    calibration, evaluation = split_sizes(found, network.outputs)
    return OwnArraysOptions(
        folder=folder,
        parts=dict(network.inputs),
        format=LabelFormat.NONE if source is None else source.kind,
        labels=None if source is None else source.labels,
        label_column="" if source is None else source.column,
        calibration=calibration,
        evaluation=evaluation,
    )


def _outputs(split: Split, runner: Runner) -> list[Array]:
    """Outputs of the float model for all samples, samples in the first dimension."""
    parts = [
        runner.feed(feed, f"sample {at} of {split.name}")
        for at in range(len(split))
        for feed in one_by_one(split.take(at, at + 1))
    ]
    return images_first([np.concatenate(column) for column in zip(*parts, strict=True)], len(split))


def _input_parameters(network: ArrayNetwork) -> dict[str, str]:
    """The group of the converter's YAML: feature maps without preprocessing."""
    count = len(network.inputs)

    def each(word: str) -> str:
        return ";".join([word] * count)

    values = {
        "input_name": ";".join(network.inputs),
        "input_type_train": each(InputType.FEATUREMAP.value),
        "input_layout_train": each(Layout.NCHW.value),
        "input_shape": ";".join("x".join(map(str, (1, *part.shape))) for part in network.inputs.values()),
        "norm_type": each(NormType.NONE.value),
        "input_type_rt": each(InputType.FEATUREMAP.value),
        "input_layout_rt": each(Layout.NCHW.value),
    }
    InputParameters.model_validate(values)
    return values
