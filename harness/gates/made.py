"""How an accepted trial came about, in a form that a baseline keeps: nodes a line each, answers packed."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_serializer, model_validator

from harness.files.strict_yaml import StrictModel
from harness.trials.artefacts import Artefact
from harness.trials.figures import TrialNode
from harness.trials.trial import TrialResult, TrialStore

_SEPARATOR = " | "


class KeptNode(StrictModel):
    """A row of the node table; one line of text in a file, so that a review sees nodes rather than braces.

    Attributes:
        on: ``BPU`` or ``CPU``.
        type: operator.
        data_type: of its first input.
        threshold: of its first input; None on the CPU.
        cosine: of its output; None where it is not known.
        reason: why it runs on the CPU.
    """

    on: str
    type: str
    data_type: str
    threshold: float | None = None
    cosine: float | None = None
    reason: str = ""

    @model_serializer
    def _line(self) -> str:
        figures = ("" if value is None else f"{value:.9g}" for value in (self.threshold, self.cosine))
        return _SEPARATOR.join((self.on, self.type, self.data_type, *figures, self.reason))

    @model_validator(mode="before")
    @classmethod
    def _of_line(cls, content: Any) -> Any:
        if not isinstance(content, str):
            return content
        parts = content.split(_SEPARATOR, 5)
        if len(parts) != 6:
            raise ValueError(f"{content!r}: expected six fields with {_SEPARATOR!r} between them")
        return {name: part for name, part in zip(cls.model_fields, parts, strict=True) if part}

    @classmethod
    def of(cls, row: TrialNode) -> KeptNode:
        """What is kept of ``row``; figures with nine digits."""
        return cls(
            on=row.on,
            type=row.type,
            data_type=row.data_type,
            threshold=_rounded(row.threshold),
            cosine=_rounded(row.cosine),
            reason=row.reason,
        )


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.9g}")


MOST_ANSWERS = 10_000_000
"""Images of one trial that a baseline has answers of: 40 MB of classes."""


class _Packed(StrictModel):
    """Numbers of four bytes, packed: base64 of zlib, little-endian.

    Attributes:
        count: how many.
        packed: the numbers.
    """

    count: int = Field(ge=0, le=MOST_ANSWERS)
    packed: str

    @model_validator(mode="after")
    def _whole(self) -> Self:
        try:
            found = len(self._bytes())
        except (zlib.error, binascii.Error) as error:
            raise ValueError(f"packed: {error}") from error
        if found != 4 * self.count:
            raise ValueError(f"packed: holds {found} bytes, expected {4 * self.count}")
        return self

    def _bytes(self) -> bytes:
        """The unpacked numbers, at most one byte more than they should take: a baseline may come from anyone."""
        return zlib.decompressobj().decompress(base64.b64decode(self.packed), 4 * self.count + 1)


def _packed(numbers: NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(numbers.tobytes())).decode()


class Answers(_Packed):
    """The class that a model gave each image, int32."""

    @classmethod
    def of(cls, classes: NDArray[np.int64]) -> Answers:
        """``classes``, shape (images,)."""
        return cls(count=len(classes), packed=_packed(classes.astype("<i4")))

    def array(self) -> NDArray[np.int64]:
        """int64, shape (images,)."""
        return np.frombuffer(self._bytes(), "<i4").astype(np.int64)


class Resampled(_Packed):
    """The metric on the draws that all models share (:mod:`harness.metrics.resampling`), float32."""

    @classmethod
    def of(cls, values: NDArray[np.float32]) -> Resampled:
        """``values``, shape (draws,)."""
        return cls(count=len(values), packed=_packed(values.astype("<f4")))

    def array(self) -> NDArray[np.float64]:
        """float64, shape (draws,)."""
        return np.frombuffer(self._bytes(), "<f4").astype(np.float64)


class Made(StrictModel):
    """How a trial came about.

    Attributes:
        engine: digest of sources and tools of its stages.
        calibration_samples, evaluation_samples: how many of the card's.
        float_score: of the float model on the evaluation images.
        artefacts: digests of what its stages gave.
        nodes: by name, in the order of the graph.
        answers: class per image, where the model gives one.
    """

    engine: str
    calibration_samples: int
    evaluation_samples: int
    float_score: float | None = None
    artefacts: Mapping[Artefact, str] = {}
    nodes: Mapping[str, KeptNode] = {}
    answers: Answers | None = None


def made_of(result: TrialResult, store: TrialStore) -> Made:
    """How the trial of ``result`` came about; of one that failed, what it was asked to do."""
    spec = result.spec
    classes = store.predictions(spec.key).get("classes") if result.ok else None
    return Made(
        engine=spec.engine,
        calibration_samples=spec.calibration_samples,
        evaluation_samples=spec.evaluation_samples,
        float_score=result.accuracy.float_value if result.accuracy else None,
        artefacts=result.artefacts,
        nodes={row.node: KeptNode.of(row) for row in store.nodes(spec.key)},
        answers=Answers.of(classes) if classes is not None else None,
    )
