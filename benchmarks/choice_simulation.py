"""Simulated sweeps whose truth is known: how often the best setting is recommended, what a wrong one costs, and how
often settings are told apart, or called alike, wrongly.

``python -m benchmarks.choice_simulation [sweeps]`` simulates so many sweeps (200) of six settings for each metric, with
seed 0. A setting has a level of damage, drawn from :data:`LEVELS`, so that there are ties; its truth is the metric on
:data:`POPULATION` images. ``one half`` is the rule that there was before: the first half of the images chooses (of
equal settings the fastest), and scores per image on the other half tell apart; there, an image without targets counts
as wrong if any box is on it. ``cross-fitted`` is the rule of :mod:`harness.gates.choice`; with ``blind`` the cosines
say nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.chips import DEFAULT_MARCH
from harness.datasets import SceneTarget
from harness.gates.choice import choose
from harness.gates.drift import holm
from harness.gates.paired import paired_p_values
from harness.metrics import Score
from harness.metrics.detection import Detections, score_detections
from harness.metrics.resampling import sides, sides_of
from harness.metrics.segmentation import score_confusions
from harness.metrics.text_detection import score_matches
from harness.suites.settings import Settings
from harness.trials.figures import Accuracy, Fidelity, Footprint
from harness.trials.trial import TrialResult, TrialSpec, TrialStore

SWEEPS = 200
SETTINGS = 6
LEVELS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Share of decisions that a setting damages."""
POPULATION = 4000
"""Images on which the truth is measured."""
TIE = 0.002
"""Difference of two truths up to which both are right."""
LARGE = 0.05
"""Difference of two truths that should be seen."""
SIGNIFICANCE = 0.05

Random = np.random.Generator


@dataclass(frozen=True)
class Simulated:
    """A metric that is simulated.

    Attributes:
        name: of the metric.
        images: of a sweep.
        images_of: draws so many images: all that settings share.
        score_of: of a setting with a level of damage on them; and its scores per image as they were before.
    """

    name: str
    images: int
    images_of: Callable[[Random, int], Any]
    score_of: Callable[[Random, Any, float], tuple[Score, NDArray[np.float64]]]


# Images are drawn once per sweep, damage once per setting: settings err on the same hard images, and each on its own.


def _classes(random: Random, count: int) -> NDArray[np.bool_]:
    return random.random(count) < 0.9


def _top1(random: Random, right: NDArray[np.bool_], damage: float) -> tuple[Score, NDArray[np.float64]]:
    flipped = random.random(len(right)) < np.where(right, damage, 0.2 * damage)
    score = Score.mean((right ^ flipped).astype(np.float64))
    return score, score.per_sample


def _lines(random: Random, count: int) -> NDArray[np.float64]:
    return np.where(random.random(count) < 0.8, 1.0, random.uniform(0.5, 1, count).round(2))


def _edit_similarity(random: Random, lines: NDArray[np.float64], damage: float) -> tuple[Score, NDArray[np.float64]]:
    hit = random.random(len(lines)) < 2 * damage
    score = Score.mean(np.clip(np.where(hit, lines - random.uniform(0.05, 0.6, len(lines)).round(2), lines), 0, 1))
    return score, score.per_sample


def _objects(random: Random, count: int) -> list[list[tuple[int, float]]]:
    """Class and certainty of each object; three of five images have none."""
    counts = np.where(random.random(count) < 0.4, random.integers(1, 5, count), 0)
    return [[(int(random.integers(3)), float(random.beta(5, 2))) for _ in range(each)] for each in counts.tolist()]


def _detections(
    random: Random, images: Sequence[Sequence[tuple[int, float]]], damage: float, missed: float
) -> list[Detections]:
    found = []
    for objects in images:
        seen = [
            (place, label, sure + random.normal(0, 0.05 + damage))
            for place, (label, sure) in enumerate(objects)
            if random.random() >= missed + damage
        ]
        strays = random.poisson(0.3 + 2 * damage)
        seen += [(10 + index, int(random.integers(3)), random.uniform(0.01, 0.2 + damage)) for index in range(strays)]
        seen.sort(key=lambda each: -each[2])
        found.append(
            Detections(
                np.array([_box(place) for place, _, _ in seen], np.float32).reshape(-1, 4),
                np.clip([score for _, _, score in seen], 0.01, 1).astype(np.float32),
                np.array([label for _, label, _ in seen], np.int64),
            )
        )
    return found


def _box(place: int) -> tuple[float, float, float, float]:
    return (20.0 * place, 0.0, 20.0 * place + 10, 10.0)


def _scored(found: Sequence[Detections], scenes: Sequence[SceneTarget]) -> tuple[Score, NDArray[np.float64]]:
    score = score_detections(found, scenes, 3)
    any_box = np.array([len(each.scores) > 0 for each in found])
    is_empty = np.array([not len(scene.classes) for scene in scenes])
    return score, np.where(is_empty, ~any_box, score.per_sample).astype(np.float64)


def _map50(
    random: Random, images: Sequence[Sequence[tuple[int, float]]], damage: float
) -> tuple[Score, NDArray[np.float64]]:
    scenes = [_scene([(_box(place), label) for place, (label, _) in enumerate(objects)]) for objects in images]
    return _scored(_detections(random, images, damage, missed=0.08), scenes)


def _agreement(
    random: Random, images: Sequence[Sequence[tuple[int, float]]], damage: float
) -> tuple[Score, NDArray[np.float64]]:
    """The objects are what the float model found."""
    scenes = [_scene([(_box(place), label) for place, (label, _) in enumerate(objects)]) for objects in images]
    return _scored(_detections(random, images, damage, missed=0.0), scenes)


def _scene(objects: Sequence[tuple[tuple[float, float, float, float], int]]) -> SceneTarget:
    boxes = np.array([box for box, _ in objects], np.float32).reshape(-1, 4)
    return SceneTarget(boxes, np.array([label for _, label in objects], np.int64), np.zeros((1, 1), np.uint8))


def _masks(random: Random, count: int) -> NDArray[np.int64]:
    """Pixels of four classes; the rarer ones are in a third of the images."""
    shares = random.dirichlet((4, 2, 1, 1), count) * np.column_stack(
        [np.ones((count, 1)), random.random((count, 3)) < 0.35]
    )
    return np.asarray((1000 * shares / shares.sum(axis=1, keepdims=True)).round(), np.int64)


def _miou(random: Random, pixels: NDArray[np.int64], damage: float) -> tuple[Score, NDArray[np.float64]]:
    """Each class of an image loses a share of its pixels to the background or another class."""
    count, classes = pixels.shape
    lost = random.beta(1, 6, (count, classes)) * 0.4 + damage * random.gamma(1, 1, (count, classes))
    moved = (pixels * np.clip(lost, 0, 1)).astype(np.int64)
    confusion = np.zeros((count, classes, classes), np.int64)
    for label in range(classes):
        confusion[:, label, label] = pixels[:, label] - moved[:, label]
        confusion[:, label, (label + 1) % classes] = moved[:, label]
    score = score_confusions(confusion)
    return score, score.per_sample


def _pages(random: Random, count: int) -> NDArray[np.int64]:
    return np.where(random.random(count) < 0.5, random.integers(1, 12, count), 0)


def _hmean(random: Random, boxes: NDArray[np.int64], damage: float) -> tuple[Score, NDArray[np.float64]]:
    matches = random.binomial(boxes, 0.93 - damage)
    strays = random.poisson(0.1 + damage, len(boxes))
    score = score_matches(matches, boxes + matches + strays, boxes > 0)
    return score, score.per_sample


def _noise(random: Random, count: int) -> NDArray[np.float64]:
    return random.gamma(2, 0.5, count)


def _cosine(random: Random, noise: NDArray[np.float64], damage: float) -> tuple[Score, NDArray[np.float64]]:
    score = Score.mean(np.clip(1 - (0.005 + damage) * noise * random.gamma(4, 0.25, len(noise)), 0, 1))
    return score, score.per_sample


METRICS = (
    Simulated("top1", 100, _classes, _top1),
    Simulated("map50", 50, _objects, _map50),
    Simulated("map50, float's labels", 50, _objects, _agreement),
    Simulated("miou", 50, _masks, _miou),
    Simulated("edit_similarity", 100, _lines, _edit_similarity),
    Simulated("hmean", 50, _pages, _hmean),
    Simulated("cosine", 50, _noise, _cosine),
)


@dataclass(frozen=True)
class Trial:
    """A setting of a sweep."""

    truth: float
    result: TrialResult
    score: Score
    old_scores: NDArray[np.float64]

    def blind(self, cosine: float) -> Trial:
        """The same with a cosine that says nothing."""
        return replace(self, result=self.result.model_copy(update={"fidelity": _fidelity(cosine)}))


@dataclass(frozen=True)
class Memory(TrialStore):
    """Scores of one sweep, by key of the trial."""

    kept: Mapping[str, dict[str, NDArray[Any]]] = field(default_factory=dict)

    def predictions(self, key: str) -> dict[str, NDArray[Any]]:
        return self.kept[key]


def sweep_of(random: Random, metric: Simulated, truths: Mapping[float, float]) -> tuple[list[Trial], Memory]:
    """Six settings on the same images."""
    images = metric.images_of(random, metric.images)
    floats, _ = metric.score_of(random, images, 0.0)
    trials, kept = [], {}
    for number in range(SETTINGS):
        damage = float(random.choice(LEVELS))
        score, old = metric.score_of(random, images, damage)
        spec = TrialSpec(
            model="net",
            march=DEFAULT_MARCH,
            settings=Settings(max_percentile=1 - 1e-4 * number),
            calibration_samples=50,
            evaluation_samples=metric.images,
            card="",
            file="",
            data="",
            engine="",
        )
        cosine = 1 - 0.05 * damage * float(np.exp(random.normal(0, 0.5))) - float(random.uniform(0, 5e-4))
        latency = float(random.choice((1.0, 1.7)) * random.uniform(1, 1.001))
        result = TrialResult(
            spec=spec,
            accuracy=Accuracy(
                metric=metric.name,
                float_value=floats.value,
                value=score.value,
                stderr=score.stderr,
                delta_stderr=0.0,
                informative=None if score.informative is None else int(score.informative.sum()),
                sought="objects",
            ),
            fidelity=_fidelity(cosine),
            footprint=Footprint(latency_ms=latency, cpu_ms=0, ddr_mb=0, cpu_nodes=0, subgraphs=1),
        )
        arrays = {"per_sample": score.per_sample, "float_per_sample": floats.per_sample}
        if score.resampled is not None and floats.resampled is not None:
            arrays |= {"resampled": score.resampled, "float_resampled": floats.resampled}
        kept[spec.key] = arrays
        trials.append(Trial(truths[damage], result, score, old))
    return trials, Memory(Path(), kept=kept)


def _fidelity(cosine: float) -> Fidelity:
    return Fidelity(cosine=cosine, cosine_min=cosine, sqnr_db=None, max_abs=0, agreement=None)


def cross_fitted(trials: Sequence[Trial], store: TrialStore) -> tuple[int, set[int]]:
    """Position of the recommended setting, and of what is told apart from it."""
    (choice,) = choose([trial.result for trial in trials], store)
    keys = [trial.result.spec.key for trial in trials]
    return keys.index(str(choice.best)), {index for index, key in enumerate(keys) if key not in choice.alike}


def one_half(trials: Sequence[Trial]) -> tuple[int, set[int]]:
    """The same by the rule of before."""
    chosen_on = sides(len(trials[0].old_scores))[0]
    values = [
        trial.score.per_sample[chosen_on].mean() if trial.score.resampled is None else _first_side(trial.score)
        for trial in trials
    ]
    times = [trial.result.footprint.total_ms if trial.result.footprint else 0.0 for trial in trials]
    best = min(range(len(trials)), key=lambda index: (-values[index], times[index], index))
    scores = np.stack([trial.old_scores[~chosen_on] for trial in trials])
    differences = scores[best] - scores
    p = np.minimum(1, 2 * np.minimum(paired_p_values(differences), paired_p_values(-differences)))
    corrected = holm({index: float(value) for index, value in enumerate(p) if index != best})
    return best, {index for index, value in corrected.items() if value < SIGNIFICANCE}


def _first_side(score: Score) -> float:
    return -1.0 if score.resampled is None else float(np.nan_to_num(sides_of(score.resampled)[0], nan=0.0))


@dataclass
class Tally:
    """Counts over the sweeps of one metric and rule."""

    right: int = 0
    sweeps: int = 0
    regret: float = 0.0
    worst: float = 0.0
    equal: int = 0
    falsely_apart: int = 0
    any_apart: int = 0
    large: int = 0
    falsely_alike: int = 0

    def add(self, truths: Sequence[float], best: int, apart: set[int]) -> None:
        regret = max(truths) - truths[best]
        self.sweeps += 1
        self.right += regret <= TIE
        self.regret += regret
        self.worst = max(self.worst, regret)
        others = [index for index in range(len(truths)) if index != best]
        equal = [index for index in others if abs(truths[index] - truths[best]) <= TIE]
        large = [index for index in others if abs(truths[index] - truths[best]) > LARGE]
        self.equal += len(equal)
        self.falsely_apart += len(apart.intersection(equal))
        self.any_apart += bool(apart.intersection(equal))
        self.large += len(large)
        self.falsely_alike += len(large) - len(apart.intersection(large))

    def __str__(self) -> str:
        shares = (
            f"{100 * self.right / self.sweeps:.0f} %",
            f"{100 * self.regret / self.sweeps:.2f}",
            f"{100 * self.worst:.1f}",
            f"{100 * self.falsely_apart / max(1, self.equal):.1f} %",
            f"{100 * self.any_apart / self.sweeps:.1f} %",
            f"{100 * self.falsely_alike / max(1, self.large):.0f} %",
        )
        return " | ".join(shares)


HEADINGS = (
    *("metric", "images", "rule", "right", "regret", "worst"),
    *("told apart though equal", "in so many sweeps", "alike though > 5 points apart"),
)


def main() -> None:
    """Print the table."""
    sweeps = int(sys.argv[1]) if len(sys.argv) > 1 else SWEEPS
    started = time.process_time()
    print(f"{sweeps} sweeps of {SETTINGS} settings for each metric, seed 0")
    print(f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}")
    for metric in METRICS:
        population = metric.images_of(np.random.default_rng(1), POPULATION)
        truths = {level: metric.score_of(np.random.default_rng(2), population, level)[0].value for level in LEVELS}
        tallies = {"one half": Tally(), "cross-fitted": Tally(), "cross-fitted, blind": Tally()}
        random, noise = np.random.default_rng(0), np.random.default_rng(3)
        for _ in range(sweeps):
            trials, store = sweep_of(random, metric, truths)
            blind = [trial.blind(0.9 + 0.1 * noise.random()) for trial in trials]
            found = one_half(trials), cross_fitted(trials, store), cross_fitted(blind, store)
            for tally, (best, apart) in zip(tallies.values(), found, strict=True):
                tally.add([trial.truth for trial in trials], best, apart)
        for name, tally in tallies.items():
            print(f"| {metric.name} | {metric.images} | {name} | {tally} |", flush=True)
    print(f"{time.process_time() - started:.0f} CPU seconds")


if __name__ == "__main__":
    main()
