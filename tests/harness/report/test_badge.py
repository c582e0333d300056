"""Badges of a verdict."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest

from harness.gates.verdicts import Verdict
from harness.report.badge import badge_json, badge_svg
from tests.harness.sweeps.test_announcing import sweep


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_badge_says_suite_and_verdict(verdict: Verdict) -> None:
    content = json.loads(badge_json(sweep(verdict)))
    assert (content["schemaVersion"], content["label"], content["message"]) == (1, "mine", verdict.value)
    assert content["isError"] is not verdict.is_good
    drawing = ElementTree.fromstring(badge_svg(sweep(verdict)))
    texts = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["mine", verdict.value]
