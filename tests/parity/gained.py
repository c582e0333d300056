"""Agreement gained by every rule on the recorded networks of a few nodes: ``python -m tests.parity.gained``.

By how much the decisions that are the original's outnumber those that are not more with the rule than without it; of a
pass, the nodes of the float graph.
"""

from __future__ import annotations

import sys
from collections import Counter

from engine.conformance.rule_evidence import agreement
from engine.rulebook.book import BOOK
from engine.rulebook.rewrite import rewrite_id
from tests.parity.rule_cases import rule_cases
from tests.parity.test_passes import NEEDED_BY, subjects


def gained() -> Counter[str]:
    """By id of a rule that a recorded network of a few nodes needs."""
    found: Counter[str] = Counter()
    for case in rule_cases():
        subject, answer = case.subject(), case.answered()
        agreed = agreement(subject.placed(), answer)
        for rule in case.rules:
            found[rule] += agreed - agreement(subject.placed(BOOK.without(rule)), answer)
    for name, case_name in NEEDED_BY.items():
        found[rewrite_id(name)] += subjects()[case_name].gained_by(name)
    return found


if __name__ == "__main__":
    for rule, count in sorted(gained().items()):
        sys.stdout.write(f"{count:6}  {rule}\n")
