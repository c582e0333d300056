"""Recognised text against the right one, from the raw class probabilities of a CTC network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field
from rapidfuzz.distance import Levenshtein

from engine.errors import InferenceError
from harness.datasets import Targets
from harness.files.strict_yaml import StrictModel
from harness.metrics.base import Array, Metric, Score


class EditSimilarityOptions(StrictModel):
    """How class numbers become characters.

    Attributes:
        characters: one per line, or a sequence of them, in the order of the classes behind ``blank``; a card takes
            them from the model file with ``metadata: {characters: KEY}``.
        blank: class that separates repeated characters. The others count up around it.
        space: whether one class more, behind the characters, stands for a blank space, as PaddleOCR has it.
        strip: whether blank spaces at both ends are dropped: what networks read in margins.
    """

    characters: str | tuple[str, ...] = Field(min_length=1)
    blank: int = Field(default=0, ge=0)
    space: bool = True
    strip: bool = True

    @property
    def alphabet(self) -> list[str]:
        """Text of each class; the blank's is empty."""
        listed = self.characters.split("\n") if isinstance(self.characters, str) else list(self.characters)
        if listed[-1] == "":
            listed.pop()  # the text ended with a line feed
        listed += [" "] if self.space else []
        return [*listed[: self.blank], "", *listed[self.blank :]]


class EditSimilarity(Metric):
    """Mean over lines of ``1 - Levenshtein distance / length of the longer text``; 1 where both are empty.

    The text is the best class at each step, repetitions merged and blanks dropped (greedy CTC decoding). A line with a
    NaN among its outputs scores 0. ``per_sample`` is the similarity of each line; the standard error is that of a mean.

    Attributes:
        alphabet: text of each class; the blank's is empty.
    """

    name = "edit_similarity"
    sought = "text"
    Options = EditSimilarityOptions

    def __init__(self, options: EditSimilarityOptions) -> None:
        self._options = options
        self.alphabet = options.alphabet

    def score(self, outputs: Sequence[Array], targets: Targets) -> Score:
        """One output: class scores, shape (lines, steps, classes) or (lines, steps, 1, classes); targets are texts."""
        texts = [target for target in targets if isinstance(target, str)]
        if not texts or len(texts) != len(targets):
            raise InferenceError(f"{self.name} needs a text for every image, and at least one image")
        outputs = [_without_batch(output) for output in outputs]
        shapes = [output.shape for output in outputs]
        if len(shapes) != 1 or len(shapes[0]) != 3 or shapes[0][::2] != (len(texts), len(self.alphabet)):
            raise InferenceError(
                f"{self.name}: outputs have shapes {shapes}, the characters and the targets need "
                f"[({len(texts)}, steps, {len(self.alphabet)})]"
            )
        similarities = np.array(
            [
                0.0 if np.isnan(line).any() else self._similarity(self.decode(line), text)
                for line, text in zip(outputs[0], texts, strict=True)
            ]
        )
        return Score.mean(similarities, np.array([text != "" for text in texts]))

    def _similarity(self, read: str, text: str) -> float:
        """Similarity of the text that was read and the right one, 0..1."""
        return float(Levenshtein.normalized_similarity(read, text))

    def labels(self, outputs: Sequence[Array]) -> Targets:
        """The text of every line."""
        return [self.decode(line) for line in _without_batch(outputs[0])]

    def decode(self, scores: Array) -> str:
        """Text of one line; ``scores`` has shape (steps, classes). Equal scores rank by class number."""
        best = scores.argmax(axis=1)
        starts = np.append(True, best[1:] != best[:-1])
        text = "".join(self.alphabet[label] for label in best[starts])
        return text.strip(" ") if self._options.strip else text


def _without_batch(output: Array) -> Array:
    """(lines, steps, classes): without the batch of 1 that CRNN's steps x 1 x classes has in the middle."""
    return output[:, :, 0] if output.ndim == 4 and output.shape[2] == 1 else output


class WordAccuracy(EditSimilarity):
    """Share of lines that are read without a fault; decoding and options are those of :class:`EditSimilarity`."""

    name = "word_accuracy"

    def _similarity(self, read: str, text: str) -> float:
        return float(read == text)
