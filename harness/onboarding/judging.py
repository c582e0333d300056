"""Which normalisation is right, by what the network says of a few images under each.

With labels the metric decides. Without, the mutual information between the answers to an image and to its mirror image
(Ji et al., Invariant Information Clustering, 2019): a network that sees what it was trained on says the same of both,
and different things of different images. Noise, or one answer for everything, gives none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.terms import InputType
from harness.datasets import Images, Targets
from harness.gates.paired import paired_p_value
from harness.metrics import Metric
from harness.onboarding.guesses import Normalisation

Array = NDArray[Any]
T = TypeVar("T")
R = TypeVar("R")

FEW, MANY = 8, 32
"""Images that every guess is tried on, and those that the best are."""
FINALISTS = 3
"""Best guesses that are tried on all."""
SURE, LIKELY = 0.01, 0.1
"""Probabilities of chance below which a guess is sure, or likely."""


class Basis(StrEnum):
    """What decided."""

    LABELS = "labels"
    MIRROR = "mirror images"
    CONVENTION = "convention"


@dataclass(frozen=True)
class Tried:
    """A guess on images.

    Attributes:
        guess: the normalisation.
        value: the metric with labels; else information in nats.
        evidence: float64, shape (images,): what each image says for the guess.
        images: that it was tried on.
        first_class: number of the first class that fits the labels best.
    """

    guess: Normalisation
    value: float
    evidence: NDArray[np.float64]
    images: int
    first_class: int = 0


@dataclass(frozen=True)
class Decision:
    """Normalisations, the best first.

    Attributes:
        ranking: all that were tried; empty where nothing could be measured.
        best: the chosen one.
        basis: what decided.
        chance: probability that the best is no better than the next, paired and one-sided; 1 if nothing was measured.
        first_class: number of the first class.
        is_tie: whether BGR is no worse than RGB beyond chance, with the same mean and scale; RGB is taken then.
        usual: what the file alone speaks for most; None where that is not known.
        floor: value of the best that tells nothing yet: information of answers that are hardly different, or the score
            of answers that do not depend on the image.
        is_agreed: whether the file speaks for the best too, among others; what labels say needs no agreement.
    """

    ranking: tuple[Tried, ...]
    best: Normalisation
    basis: Basis
    chance: float
    first_class: int = 0
    is_tie: bool = False
    usual: Normalisation | None = None
    floor: float = 0.0
    is_agreed: bool = True

    @property
    def is_informed(self) -> bool:
        """Whether the best value tells anything at all."""
        return not self.ranking or self.ranking[0].value > self.floor

    def mark(self, guess: Normalisation) -> str:
        """What a row of the ranking is marked with: the chosen one, and what the file speaks for where that differs."""
        if guess == self.best:
            return "chosen"
        return "what the file speaks for" if guess == self.usual and self.basis is Basis.MIRROR else ""

    @property
    def words(self) -> str:
        """How sure it is; where that is open, what the images and the file say."""
        if self.basis is Basis.CONVENTION:
            return "not measured"
        if not self.is_informed:
            first = self.ranking[0]
            return (
                f"open: of the images {first.guess} is best, but its {first.value:.3f} tells nothing (below "
                f"{self.floor:.3f}); what the file speaks for is taken"
            )
        if not self.is_agreed:
            return f"open: the images speak for it, the file for {self.usual}"
        found = "sure" if self.chance < SURE else "likely" if self.chance < LIKELY else "open"
        return f"{found} (rgb and bgr tie: rgb is taken)" if self.is_tie else found


Answer = Callable[[], list[Array]]
"""Waits for the outputs for some images, one array per output, images in the first dimension."""
Network = Callable[[Normalisation, Images], Answer]
"""Begins to compute the outputs for images under a normalisation."""
Judge = Callable[[Sequence[Array], Sequence[Array], int], tuple[float, NDArray[np.float64], int]]
"""Value, evidence per image and first class, of outputs for images and for their mirror images, and their number."""


def decide(
    network: Network,
    guesses: Sequence[Normalisation],
    images: Images,
    judge: Judge,
    basis: Basis,
    mirrored: bool,
    agreed: Collection[Normalisation] | None = None,
    floor: float = 0.0,
    is_certain: bool = False,
) -> Decision:
    """Try all guesses on :data:`FEW` images, the best and the first on all.

    The first guess is chosen unless another is better by more than chance, which without labels is more to ask: a
    mirror image of a letter is no letter. It is chosen too where the best value is no more than ``floor``. BGR is
    chosen only if it is better than RGB beyond chance. Detectors are not judged this way: they are surer of what has
    more contrast.

    Args:
        network: runs on images under a guess.
        guesses: the usual ones first.
        images: uint8, (images, height, width, channels), RGB or gray.
        judge: what is better.
        basis: what ``judge`` goes by.
        mirrored: whether ``judge`` needs the outputs for mirror images.
        agreed: guesses that the file speaks for; None where that does not matter.
        floor: value up to which the best tells nothing.
        is_certain: whether the file leaves no doubt about the first guess: labels must be sure to say otherwise.
    """
    answers = _Answers(network, images, judge, mirrored)
    few = min(FEW, len(images))
    ranked = sorted(answers.tried(guesses, few), key=_falling)
    if len(images) > few:
        finalists = {found.guess for found in ranked[:FINALISTS]} | {guesses[0]}
        finalists |= {found.guess for found in ranked if _is_twin(found.guess, ranked[0].guess)}
        again = answers.tried([found.guess for found in ranked if found.guess in finalists], len(images))
        ranked = sorted(again, key=_falling) + [found for found in ranked if found.guess not in finalists]
    most = [found for found in ranked if found.images == ranked[0].images]
    least = LIKELY if basis is Basis.LABELS and not is_certain else SURE
    usual = next((found for found in most if found.guess == guesses[0]), ranked[0])
    is_informed = ranked[0].value > floor
    best = usual if not is_informed or _chance(ranked[0], usual) >= least else ranked[0]
    twin = next((found for found in most if _is_twin(found.guess, best.guess)), None)
    better, other = (best, twin) if twin is None or best.value >= twin.value else (twin, best)
    is_tie = is_informed and other is not None and _chance(better, other) >= least
    if is_tie and twin is not None and best.guess.colour is InputType.BGR:
        best = twin
    chance = max((_chance(best, rival) for rival in most if rival is not best), default=1.0)
    is_agreed = agreed is None or best.guess in agreed
    return Decision(
        tuple(ranked), best.guess, basis, chance, best.first_class, is_tie, guesses[0], floor, is_agreed=is_agreed
    )


@dataclass
class _Answers:
    """What a network answers to the first images under one guess after the other, and what that is worth.

    Answers are kept for those guesses that are tried on more images later, if those of all guesses are no larger than
    :data:`_KEPT_BYTES`.

    Attributes:
        network, images, judge, mirrored: as of :func:`decide`.
    """

    network: Network
    images: Images
    judge: Judge
    mirrored: bool
    _kept: dict[Normalisation, tuple[list[Array], list[Array]]] = field(default_factory=dict)

    def tried(self, guesses: Sequence[Normalisation], count: int) -> Iterator[Tried]:
        """``guesses`` on the first ``count`` images; the next one is computed while one is judged."""
        kept, self._kept = self._kept, {}
        starts = {guess: len(kept[guess][0][0]) if guess in kept else 0 for guess in guesses}
        begun = ahead(lambda guess: self._begin(guess, starts[guess], count), guesses)
        for guess, answers in zip(guesses, begun, strict=True):
            outputs, mirror = (answer() for answer in answers)
            if guess in kept:
                outputs, mirror = (_joined(*parts) for parts in zip(kept[guess], (outputs, mirror), strict=True))
            size = len(guesses) * sum(array.nbytes for array in (*outputs, *mirror))
            if count < len(self.images) and size <= _KEPT_BYTES:
                self._kept[guess] = outputs, mirror
            value, evidence, first = self.judge(outputs, mirror, count)
            yield Tried(guess, value, evidence, count, first)

    def _begin(self, guess: Normalisation, start: int, stop: int) -> tuple[Answer, Answer]:
        """Answers to images, and to their mirror images where these are needed."""
        shown = self.images[start:stop]
        return self.network(guess, shown), self.network(guess, shown[:, :, ::-1]) if self.mirrored else list


_KEPT_BYTES = 1 << 28


def _joined(before: Sequence[Array], behind: Sequence[Array]) -> list[Array]:
    return [np.concatenate(pair) for pair in zip(before, behind, strict=True)]


def ahead(begin: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """What ``begin`` gives for each of ``items``; it is called for the next one before one is handed out."""
    waiting: list[R] = []
    for item in items:
        waiting.append(begin(item))
        if len(waiting) > 1:
            yield waiting.pop(0)
    yield from waiting


def _is_twin(guess: Normalisation, other: Normalisation) -> bool:
    """Whether only the order of colours tells them apart."""
    return guess.name == other.name and guess.colour is not other.colour


def _chance(better: Tried, other: Tried) -> float:
    """Probability that ``better`` is no better."""
    return paired_p_value(better.evidence - other.evidence)


def _falling(found: Tried) -> float:
    """Sorts the best first; what differs by less than a thousandth keeps its order, which is that of use."""
    return -round(found.value, 3)


def by_labels(metric: Metric, targets: Mapping[int, Targets]) -> Judge:
    """The metric with labels; ``targets`` by number of the first class, of which the best counts.

    Evidence is the score of each image; of classes the logarithm of the right one's probability, which tells more.
    """

    def judge(outputs: Sequence[Array], mirror: Sequence[Array], count: int) -> tuple[float, NDArray[np.float64], int]:
        del mirror
        scores = {first: metric.score(outputs, found[:count]) for first, found in targets.items()}
        first = max(scores, key=lambda number: scores[number].value)
        labels = targets[first]
        if isinstance(labels, np.ndarray) and labels.dtype.kind == "i":
            rows = probabilities(outputs[0].reshape(count, -1))
            return scores[first].value, np.log(rows[np.arange(count), labels[:count]] + _FLOOR), first
        return scores[first].value, scores[first].per_sample, first

    return judge


def by_mirror(outputs: Sequence[Array], mirror: Sequence[Array], count: int) -> tuple[float, NDArray[np.float64], int]:
    """Information that class scores of images and of their mirror images share, in nats."""
    both = contrasted(np.concatenate([found[0].reshape(count, -1) for found in (outputs, mirror)]))
    plain, turned = _likeliest_columns(both[:count], both[count:])
    joint = plain.T @ turned / len(plain)
    joint = (joint + joint.T) / 2
    margin = joint.sum(axis=1)
    gain = np.log((joint + _FLOOR) / (np.outer(margin, margin) + _FLOOR))
    per_sample = np.einsum("ij,jk,ik->i", plain, gain, turned, optimize=True)
    return float(per_sample.mean()), per_sample, 0


def information_floor(images: int, classes: int) -> float:
    """Information in nats up to which mirror images tell nothing: :data:`LEAST_SHARE` of what there could be.

    ``images`` different answers, or ``classes``, hold the logarithm of their number.
    """
    return LEAST_SHARE * float(np.log(max(min(images, classes), 2)))


LEAST_SHARE = 1 / 3
"""Least share of information from which on a normalisation is believed.

It lies between what trained networks share on images of their kind under the right one (0.47 and more) and the most
that any reaches where there is nothing to tell (0.24 and less): docs/evidence/normalisation.md."""
_FLOOR = 1e-12
_MOST_CLASSES = 512
"""Classes that are told apart; the others count as one."""


def _likeliest_columns(*tables: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """The columns with the largest values, and the sum of the others as one more."""
    if tables[0].shape[1] <= _MOST_CLASSES:
        return list(tables)
    peak = np.max([table.max(axis=0) for table in tables], axis=0)
    order = np.argsort(-peak, kind="stable")
    kept, rest = order[:_MOST_CLASSES], order[_MOST_CLASSES:]
    return [np.column_stack([table[:, kept], table[:, rest].sum(axis=1)]) for table in tables]


def contrasted(scores: Array) -> NDArray[np.float64]:
    """Probabilities of a softmax over scores of the same standard deviation for every guess, shape (rows, classes).

    It is ten over the root of the number of classes, within 1..3: the largest class exceeds the others by about ten.
    A network without normalisation layers gives greater scores for greater inputs; it is no surer of its answers.
    """
    values = _finite(scores)
    logits = np.log(np.maximum(values, _LEAST_PROBABILITY)) if _are_probabilities(values) else values
    spread = float(np.clip(10 / np.sqrt(values.shape[1]), 1, 3))
    logits = logits - logits.mean(axis=1, keepdims=True)
    return probabilities(logits * (spread / max(float(np.sqrt((logits**2).mean())), _FLOOR)))


_LEAST_PROBABILITY = 1e-30


def probabilities(scores: Array) -> NDArray[np.float64]:
    """Rows that sum to 1: as they are if they do, else by softmax; NaN becomes 0 before."""
    values = _finite(scores)
    if _are_probabilities(values):
        return values
    shifted = np.exp(values - values.max(axis=1, keepdims=True))
    rows: NDArray[np.float64] = shifted / shifted.sum(axis=1, keepdims=True)
    return rows


def _finite(scores: Array) -> NDArray[np.float64]:
    return np.nan_to_num(np.asarray(scores, np.float64), posinf=1e30, neginf=-1e30)


def _are_probabilities(values: NDArray[np.float64]) -> bool:
    return bool(values.min() >= 0 and np.allclose(values.sum(axis=1), 1, atol=1e-2))
