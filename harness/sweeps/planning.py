"""The trials of a suite: what its models and settings expand to, within its limits."""

from __future__ import annotations

from dataclasses import replace

from engine.terms import SUPPORTED_CONVERSIONS, InputType
from harness.execution.coordinator import Plan
from harness.execution.planning import resolve
from harness.suites.expansion import Expansion, ModelFacts, expand
from harness.suites.suite import Budget, Suite
from harness.sweeps.checking import refuse_mistakes
from harness.trials.trial import TrialSpec
from harness.zoo.cards import ModelCard, list_cards


def plan_trials(suite: Suite) -> list[TrialSpec]:
    """Specs of all trials of ``suite``, whose cards are looked through for mistakes first.

    Raises:
        PtqlabError: a selection matches nothing, or a card or its data are wrong or absent.
    """
    points = expansion_of(suite).points
    refuse_mistakes(suite, points)
    return resolve(suite, points)


def expansion_of(suite: Suite, where: str | None = None) -> Expansion:
    """The expanded suite, with the models that there are; ``where``: what messages call it, None for its name."""
    return expand(suite, {card.name: facts_of(card) for card in list_cards()}, where)


def facts_of(card: ModelCard) -> ModelFacts:
    """What an expansion asks of the model."""
    return ModelFacts(
        labels=(*tags_of(card), f"task:{card.task.value}", f"dataset:{card.dataset.name}"),
        input_types=_run_time_types(card),
        calibration_samples=card.dataset.calibration.count,
        evaluation_samples=card.dataset.evaluation.count,
    )


def _run_time_types(card: ModelCard) -> list[InputType]:
    """What all image inputs of the model can be fed with; nothing where none of its inputs is an image."""
    images = [SUPPORTED_CONVERSIONS[spec.type_train] for spec in card.input_specs if spec.is_image]
    return [kind for kind in InputType if images and all(kind in kinds for kinds in images)]


def tags_of(card: ModelCard) -> tuple[str, ...]:
    """What selects a card: its tags, its task, and ``bundled`` or ``external``."""
    source = "bundled" if card.source.bundled is not None else "external"
    return tuple(dict.fromkeys((card.task.value, source, *card.tags)))


def within(budget: Budget, plan: Plan) -> Plan:
    """``plan`` with the limits of a suite; a time limit of the plan itself takes precedence."""
    total = None if budget.minutes is None else 60 * budget.minutes
    per_trial = None if budget.minutes_per_trial is None else 60 * budget.minutes_per_trial
    most = [count for count in (plan.most_trials, budget.trials) if count is not None]
    return replace(plan, most_trials=min(most, default=None), seconds=total, time_limit=plan.time_limit or per_trial)
