"""Short names of long int16 lists."""

from __future__ import annotations

from harness.report.names import ShortNames
from harness.suites.settings import Int16Kind, Int16Policy, Settings
from tests.harness import fakes

LONG = Int16Policy(kind=Int16Kind.NODES, names=("/model.22/cv2.0/cv2.0.2/Conv", "/model.22/cv3.0/cv3.0.2/Conv"))
MANY = Int16Policy(kind=Int16Kind.TYPES, names=("Conv", "Add", "Mul"))
SHORT = Int16Policy(kind=Int16Kind.TYPES, names=("Conv",))


def test_long_lists_are_numbered_in_the_order_of_the_trials_and_explained() -> None:
    policies = (SHORT, LONG, Int16Policy(), MANY, LONG)
    names = ShortNames.of([fakes.result(fakes.spec(settings=Settings(int16=policy))) for policy in policies])
    assert [names.policy(policy) for policy in policies] == ["types(Conv)", "list 1", "none", "list 2", "list 1"]
    assert names.settings(Settings(int16=LONG, per_channel=True)) == "max-per_channel-int16 list 1"
    assert names.settings(Settings(int16=SHORT)) == "max-int16.types(Conv)"
    assert names.legend == [
        ("list 1", LONG.label, "2 nodes: /model.22/cv2.0/cv2.0.2/Conv, /model.22/cv3.0/cv3.0.2/Conv"),
        ("list 2", MANY.label, "3 types: Conv, Add, Mul"),
    ]
