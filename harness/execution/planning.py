"""From points of a suite to specs of trials: with digests of models, cards, data, sources and tools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.board import BoardTimes, stored_times
from engine.chips import March
from harness.backends.pipeline import version_of_stages
from harness.suites.suite import Point, Suite
from harness.trials.configuration import configuration
from harness.trials.trial import TrialSpec, card_key
from harness.zoo.cards import ModelCard, load_card


def resolve(suite: Suite, points: Iterable[Point]) -> list[TrialSpec]:
    """Specs of the suite's points: with digests of models, cards, data and code.

    Raises:
        PtqlabError: a card, its data set or its splits are wrong or absent.
    """
    identities: dict[str, _Identity] = {}
    boards: dict[March, BoardTimes | None] = {}
    specs = []
    for point in points:
        if point.model not in identities:
            identities[point.model] = _identify(load_card(point.model), suite)
        if point.march not in boards:
            boards[point.march] = stored_times(point.march.value)
        identity = identities[point.model]
        wanted = point.settings.calibration_samples or suite.calibration_samples or identity.calibration_samples
        spec = TrialSpec(
            model=point.model,
            march=point.march,
            settings=point.settings,
            calibration_samples=min(wanted, identity.calibration_samples),
            evaluation_samples=identity.evaluation_samples,
            card=card_key(identity.card),
            file=identity.file,
            data=identity.data,
            engine="",
            board=boards[point.march],
        )
        version = version_of_stages(point.settings, configuration(identity.card, spec, (), Path()))
        specs.append(spec.model_copy(update={"engine": version}))
    return specs


@dataclass(frozen=True)
class _Identity:
    card: ModelCard
    file: str
    data: str
    calibration_samples: int
    evaluation_samples: int


def _identify(card: ModelCard, suite: Suite) -> _Identity:
    use = card.dataset
    return _Identity(
        card=card,
        file=card.file_digest(),
        data=card.open_dataset().digest,
        calibration_samples=use.calibration.count,
        evaluation_samples=min(suite.evaluation_samples or use.evaluation.count, use.evaluation.count),
    )
