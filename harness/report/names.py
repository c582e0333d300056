"""Short names of long int16 lists, which plots have no room for, and what they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.suites.settings import Int16Policy, Settings
from harness.trials.trial import TrialResult

LONGEST = 20
"""Letters that an int16 policy may have in a plot."""


@dataclass(frozen=True)
class ShortNames:
    """Names for the plots of one sweep.

    Attributes:
        lists: int16 policies with long labels by their short name, in the order of the trials.
    """

    lists: Mapping[str, Int16Policy] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Sequence[TrialResult]) -> ShortNames:
        """Short names of all long int16 policies in ``results``."""
        policies = dict.fromkeys(result.spec.settings.int16 for result in results)
        long = [policy for policy in policies if len(policy.label) > LONGEST]
        return cls({f"list {number}": policy for number, policy in enumerate(long, 1)})

    def policy(self, policy: Int16Policy) -> str:
        """``list 1`` where its label is long."""
        return next((name for name, known in self.lists.items() if known == policy), _bare(policy))

    def settings(self, settings: Settings) -> str:
        """The label of settings, with the short name of their int16 policy."""
        label, policy = settings.label, settings.int16
        if policy not in self.lists.values():
            return label
        return f"{label.removesuffix(policy.label)}int16 {self.policy(policy)}"

    @property
    def legend(self) -> list[tuple[str, str, str]]:
        """Per short name: itself, the label in ids of trials, and what it asks for in words."""
        return [
            (name, policy.label, f"{len(policy.names)} {policy.kind.value}: {', '.join(policy.names)}")
            for name, policy in self.lists.items()
        ]


def _bare(policy: Int16Policy) -> str:
    return policy.label.removeprefix("int16.") or "none"
