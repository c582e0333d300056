"""Model cards (``suites/zoo/*.yaml``): what a model is, how it is fed, what it is scored on.

A card is all that a trial needs to know of a model: the file with its digest, the converter's own input parameters, the
data set with its splits, the metric, and the float score that a quantised model is compared with.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, field_validator, model_validator

from engine.config import InputParameters, InputSpec
from engine.errors import ConfigError, MissingError, ModelError, hint
from engine.fingerprint import ABSENT
from engine.terms import InputType, Layout
from harness.datasets import (
    ArrayFormat,
    Colour,
    Dataset,
    ImageFormat,
    Images,
    PartFormat,
    Samples,
    Split,
    Targets,
    open_dataset,
)
from harness.files import paths
from harness.files.strict_yaml import StrictModel, load_draft, load_typed, read_mapping, unknown
from harness.metrics import Metric, open_metric
from harness.zoo.model_sources import (
    PackageSource,
    RelativePath,
    TorchvisionSource,
    model_metadata,
    output_names,
    package_model,
    torchvision_model,
)


class TaskKind(StrEnum):
    """What a model is for."""

    CLASSIFICATION = "classification"
    DETECTION = "detection"
    SEGMENTATION = "segmentation"
    RECOGNITION = "recognition"
    OTHER = "other"


class ModelSource(StrictModel):
    """Where the ONNX file is; exactly one is given.

    Attributes:
        bundled: file beside the card.
        file: file under the folder of external models (``PTQLAB_MODELS``).
        package: file of an installed package.
        torchvision: architecture of torchvision.
    """

    bundled: RelativePath | None = None
    file: RelativePath | None = None
    package: PackageSource | None = None
    torchvision: TorchvisionSource | None = None

    @property
    def is_exported(self) -> bool:
        """Whether the file is made when it is needed, of weights or of an architecture."""
        return self.torchvision is not None or (self.package is not None and self.package.architecture is not None)

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if len(self.model_fields_set) != 1 or getattr(self, next(iter(self.model_fields_set))) is None:
            raise ValueError(f"exactly one of {', '.join(ModelSource.model_fields)} must be given")
        return self


class SplitUse(StrictModel):
    """Which images of a data set serve a purpose: the first ``count`` of ``split``."""

    split: str
    count: PositiveInt


class DatasetUse(StrictModel):
    """The data of a model.

    Attributes:
        name: of the dataset card.
        options: adapter options that replace the dataset card's.
        inputs: part of a sample by input of the model; an input that is not named takes the part of its own name, or
            the only one.
        train: images that the weights come from; ``None`` where the model was trained on other data.
        calibration: images that thresholds may be taken from.
        evaluation: images that scores are measured on; of another split than ``calibration`` and ``train``.
    """

    name: str
    options: Mapping[str, Any] = Field(default_factory=dict)
    inputs: Mapping[str, str] = Field(default_factory=dict)
    train: SplitUse | None = None
    calibration: SplitUse
    evaluation: SplitUse

    @model_validator(mode="after")
    def _evaluation_serves_nothing_else(self) -> Self:
        if self.evaluation.split in {self.calibration.split, self.train.split if self.train else None}:
            raise ValueError(f"evaluation split {self.evaluation.split!r} must not be used for anything else")
        return self


class Labels(StrEnum):
    """What outputs are scored with.

    Attributes:
        DATA: the targets of the data set.
        FLOAT: what the float model says on the same images; the images need no labels.
    """

    DATA = "data"
    FLOAT = "float"


class MetricUse(StrictModel):
    """Name and options of the metric, as :func:`harness.metrics.open_metric` takes them.

    Attributes:
        name: of the metric, or ``module:function`` of the user's own.
        options: of the metric.
        labels: what outputs are scored with.
        metadata: options whose value is in the metadata of the ONNX file, with the key that it has there.
    """

    name: str
    options: Mapping[str, Any] = Field(default_factory=dict)
    labels: Labels = Labels.DATA
    metadata: Mapping[str, str] = Field(default_factory=dict)


class FloatScore(StrictModel):
    """Score of the float model in ONNX Runtime on the card's evaluation images.

    Attributes:
        value, stderr: as in :class:`harness.metrics.Score`.
    """

    value: float = Field(ge=0, le=1)
    stderr: float = Field(ge=0, le=1)


class ModelCard(StrictModel):
    """A model: inputs that are images or feature maps, what they are fed with and what outputs are scored by.

    Attributes:
        name: as in ``load_card(name)``; the file is called ``name.yaml``.
        version: of the card.
        task: what the model is for.
        description: architecture in a sentence.
        source: where the ONNX file is.
        digest: SHA-256 of the ONNX file, hexadecimal.
        input_parameters: the converter's YAML group of this name.
        dataset: data and splits.
        metric: what the model is scored by.
        float_score: measured score of the float model.
        licence: of the weights.
        origin: command that made the file, with its seed, or where it came from.
        tags: free words for selection.
    """

    name: str
    version: PositiveInt
    task: TaskKind
    description: str
    source: ModelSource
    digest: str = Field(pattern="^[0-9a-f]{64}$")
    input_parameters: InputParameters
    dataset: DatasetUse
    metric: MetricUse
    float_score: FloatScore
    licence: str
    origin: str
    tags: tuple[str, ...] = ()

    @field_validator("input_parameters")
    @classmethod
    def _inputs_are_named_and_shaped(cls, value: InputParameters) -> InputParameters:
        inputs = len(value.input_type_train)
        if not len(value.input_name) == len(value.input_shape) == inputs:
            raise ValueError("expected input_name and input_shape of every input")
        for name, kind, shape in zip(value.input_name, value.input_type_train, value.input_shape, strict=True):
            if shape is None:
                raise ValueError(f"input {name}: a card needs its input_shape")
            if kind is not InputType.FEATUREMAP and kind not in _TRAINING_COLOURS:
                allowed = ", ".join((*_TRAINING_COLOURS, InputType.FEATUREMAP))
                raise ValueError(f"input {name}: input_type_train {kind.value!r}, expected one of {allowed}")
            if kind is not InputType.FEATUREMAP and len(shape) != 4:
                raise ValueError(f"input {name}: input_shape {shape} of an image must have four dimensions")
            if shape[0] != 1:
                raise ValueError(f"input {name}: input_shape {shape} must begin with 1, one sample")
        return value

    @cached_property
    def input_specs(self) -> tuple[InputSpec, ...]:
        """The inputs as the engine's frontend takes them, in the order of ``input_name``."""
        return self.input_parameters.specs(self.input_parameters.input_name)

    def run_time_types(self, type_rt: InputType) -> tuple[InputType, ...]:
        """``input_type_rt`` of every input where images are given as ``type_rt``."""
        return tuple(type_rt if spec.is_image else spec.type_rt for spec in self.input_specs)

    def converter_yaml(self) -> dict[str, str]:
        """``input_parameters`` as a converter's YAML file holds them."""
        given = self.input_parameters
        keys = sorted(given.model_fields_set - {"input_batch"})
        return {key: ";".join(_yaml_text(entry) for entry in getattr(given, key)) for key in keys}

    def model_path(self) -> Path:
        """The ONNX file.

        Raises:
            MissingError: it is absent, or what it is made with.
            ModelError: it is not the file that the card was written for.
        """
        path, found = self._located()[0], self.digest_of_file()
        if found != self.digest:
            raise ModelError(
                f"model {self.name}: {path} has SHA-256 {found}, but the card was written for "
                f"{self.digest}; where that is "
                f"meant: ptqlab digest {shlex.quote(str(_file_of(self.name)))} --write"
            )
        return path

    def digest_of_file(self) -> str:
        """SHA-256 of the ONNX file as it is, an exported one too.

        Raises:
            MissingError: it is absent, or what it is made with.
        """
        path, remedy = self._located()
        try:
            return _digest(path)
        except OSError as error:
            raise MissingError(f"model {self.name}: {path} cannot be read ({error.strerror}); {remedy}") from error

    def file_digest(self) -> str:
        """SHA-256 of the ONNX file as it is; :data:`ABSENT` where it is not there.

        Of a network that is exported when it is needed, it is the digest that the export must have.
        """
        if self.source.is_exported:
            return self.digest
        try:
            return _digest(self._located()[0])
        except (MissingError, OSError):
            return ABSENT

    def _located(self) -> tuple[Path, str]:
        """Where the ONNX file should be, and what to do where it is not."""
        if self.source.bundled is not None:
            return model_cards()[self.name].parent / self.source.bundled, "put it there, beside the card"
        if self.source.package is not None:
            return package_model(self.source.package), "install the package again"
        if self.source.torchvision is not None:
            return torchvision_model(self.source.torchvision), "clear the cache of exported models"
        return paths.external_models(str(self.source.file)), "put it there or set PTQLAB_MODELS"

    def output_names(self) -> list[str]:
        """The outputs of the ONNX file, in its order."""
        return output_names(self.model_path())

    def open_dataset(self) -> Dataset:
        """The card's data set.

        Raises:
            ConfigError: its images do not fit the model's input, or a split is missing or smaller than the card says.
            CalibrationDataError: the data are absent or have changed.
        """
        dataset = open_dataset(self.dataset.name, self.dataset.options)
        for spec in self.input_specs:
            self._check_part(spec, dataset)
        for use in filter(None, (self.dataset.train, self.dataset.calibration, self.dataset.evaluation)):
            if len(dataset.split(use.split)) < use.count:
                raise ConfigError(
                    f"model {self.name}: {use.count} images of split {use.split!r} asked for, data set "
                    f"{self.dataset.name} has {len(dataset.split(use.split))}"
                )
        return dataset

    def open_metric(self) -> Metric:
        """The card's metric.

        Raises:
            ConfigError: a name or option is wrong.
            ModelError: an option is to come from the model file, and it is absent or has no such metadata.
        """
        return open_metric(self.metric.name, {**self.metric.options, **self._metric_metadata()})

    def targets(self, split: Split, count: int, floats: Sequence[NDArray[Any]]) -> Targets:
        """What the first ``count`` images of ``split`` are scored with.

        Args:
            split: of the data set.
            count: images.
            floats: outputs of the float model on them.

        Raises:
            ConfigError: the float model's decisions are to stand in for labels, and the metric knows none.
        """
        if self.metric.labels is Labels.DATA:
            return split.targets(0, count)
        found = self.open_metric().labels(floats)
        if found is None:
            raise ConfigError(
                f"model {self.name}: metric.labels: 'float' needs a metric that says what outputs mean; "
                f"{self.metric.name} does not"
            )
        return found

    def _metric_metadata(self) -> dict[str, str]:
        if not self.metric.metadata:
            return {}
        found = model_metadata(self.model_path())
        missing = sorted(set(self.metric.metadata.values()) - set(found))
        if missing:
            raise ModelError(
                f"model {self.name}: its file has no metadata {', '.join(missing)}; it has {', '.join(found) or 'none'}"
            )
        return {option: found[key] for option, key in self.metric.metadata.items()}

    def part_of(self, name: str, parts: Collection[str]) -> str:
        """The part of a sample that input ``name`` takes.

        Raises:
            ConfigError: ``parts`` of the data set has none for it.
        """
        wanted = self.dataset.inputs.get(name, name)
        if wanted in parts:
            return wanted
        if name not in self.dataset.inputs and len(parts) == len(self.input_specs) == 1:
            return next(iter(parts))
        raise ConfigError(
            f"model {self.name}: input {name!r}: data set {self.dataset.name} has no part {wanted!r}; it has "
            f"{', '.join(parts)}; set dataset.inputs: {{{name}: PART}}{hint(wanted, parts)}"
        )

    def _check_part(self, spec: InputSpec, dataset: Dataset) -> None:
        found = dataset.parts[self.part_of(spec.name, dataset.parts)]
        if _is_fed_with(spec, found):
            return
        kind = f"{found.colour} images" if isinstance(found, ImageFormat) else f"{found.dtype} arrays"
        raise ConfigError(
            f"model {self.name}: input {spec.shape} {spec.layout_train} {spec.type_train}, its data set "
            f"{self.dataset.name} has {kind} of {found.shape}"
        )

    def training_inputs(self, samples: Samples) -> dict[str, NDArray[Any]]:
        """Samples as the float model sees them before normalisation, as calibration data are given, by input.

        Args:
            samples: of the card's data set.

        Returns:
            Images: uint8 in ``input_type_train`` and ``input_layout_train``, views of ``samples``; other arrays as they
            are.
        """
        return {spec.name: _as_trained(spec, samples[self.part_of(spec.name, samples)]) for spec in self.input_specs}

    def float_inputs(self, samples: Samples) -> dict[str, NDArray[Any]]:
        """What the float model is fed, by input: :meth:`training_inputs`, images as ``(x - mean) * scale``, float32."""
        trained = self.training_inputs(samples)
        return {spec.name: _normalised(spec, trained[spec.name]) for spec in self.input_specs}


def _is_fed_with(spec: InputSpec, part: PartFormat) -> bool:
    """Whether samples of ``part`` fit the input."""
    if isinstance(part, ArrayFormat):
        return not spec.is_image and spec.shape == (1, *part.shape)
    if not spec.is_image or part.colour is not _TRAINING_COLOURS[spec.type_train]:
        return False
    height, width, channels = part.shape
    nchw = spec.layout_train is Layout.NCHW
    return spec.shape == ((1, channels, height, width) if nchw else (1, height, width, channels))


def _as_trained(spec: InputSpec, values: NDArray[Any]) -> NDArray[Any]:
    """:data:`Images` in the colours and layout that the network was trained on, a view; other arrays as they are."""
    if not spec.is_image:
        return values
    images: Images = values[..., ::-1] if spec.type_train is InputType.BGR else values
    return np.moveaxis(images, 3, 1) if spec.layout_train is Layout.NCHW else images


def _normalised(spec: InputSpec, values: NDArray[Any]) -> NDArray[Any]:
    """``(x - mean) * scale`` of an image, float32; other arrays as they are."""
    if not spec.is_image:
        return values
    shape = (1, -1, 1, 1) if spec.layout_train is Layout.NCHW else (1, 1, 1, -1)
    mean = np.array(spec.mean or (0.0,), np.float32).reshape(shape)
    scale = np.array(spec.scale or (1.0,), np.float32).reshape(shape)
    normalised = np.empty(values.shape, np.float32)
    for place, image in enumerate(values):  # all at once would not stay in the CPU's caches
        normalised[place] = (image.astype(np.float32) - mean[0]) * scale[0]
    return normalised


def load_card(name: str) -> ModelCard:
    """The card called ``name``.

    Raises:
        ConfigError: there is no such card, or it is wrong.
    """
    return _checked_name(load_typed(_file_of(name), ModelCard), name)


def load_draft_card(name: str) -> tuple[ModelCard, bool]:
    """The card called ``name``, which may lack digest and score, and whether it has a score.

    A digest that is missing is zeros, and a score is 0.

    Raises:
        ConfigError: as of :func:`load_card`.
    """
    path = _file_of(name)
    has_score = "float_score" in read_mapping(path, ModelCard)
    absent = {"digest": "0" * 64, "float_score": {"value": 0, "stderr": 0}}
    return _checked_name(load_draft(path, ModelCard, absent), name), has_score


def _file_of(name: str) -> Path:
    if name not in model_cards():
        raise unknown("model", name, model_cards())
    return model_cards()[name]


def _checked_name(card: ModelCard, name: str) -> ModelCard:
    if card.name != name:
        raise ConfigError(f"{_file_of(name)}: name: {card.name!r}: expected the file's own name, {name!r}")
    return card


def list_cards(pattern: str = "*") -> list[ModelCard]:
    """Cards whose name matches the glob ``pattern``, by name."""
    return [load_card(name) for name in model_cards() if fnmatchcase(name, pattern)]


def evaluation_images(card: ModelCard, count: int | None = None) -> tuple[Split, int]:
    """The evaluation split, and how many of its first images are to be used: ``count``, at most the card's."""
    split = card.open_dataset().split(card.dataset.evaluation.split)
    if count is not None and not 1 <= count <= card.dataset.evaluation.count:
        raise ConfigError(
            f"model {card.name}: {count} evaluation images asked for, expected 1..{card.dataset.evaluation.count}"
        )
    return split, count or card.dataset.evaluation.count


_TRAINING_COLOURS: Mapping[InputType, Colour] = {
    InputType.GRAY: Colour.GRAY,
    InputType.RGB: Colour.RGB,
    InputType.BGR: Colour.RGB,
}
"""Colour of the data set per ``input_type_train``."""


def model_cards() -> dict[str, Path]:
    """Files of the model cards by name."""
    return paths.yaml_files(folder / "zoo" for folder in paths.suites())


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _yaml_text(entry: Any) -> str:
    """One input's entry: shapes joined by ``x``, numbers by blanks."""
    if isinstance(entry, tuple):
        joint = "x" if all(isinstance(item, int) for item in entry) else " "
        return joint.join(map(str, entry)) or "None"
    return str(entry)
