"""A badge with the verdict of the last sweep: an SVG, and the JSON from which shields.io draws one."""

from __future__ import annotations

import json

from engine.visible import in_html
from harness.gates.verdicts import Verdict
from harness.report.results import Sweep

SVG_FILE = "badge.svg"
JSON_FILE = "badge.json"

_COLOURS = {
    Verdict.PASS: "#2da44e",
    Verdict.NO_GATE: "#6e7781",
    Verdict.IMPROVEMENT: "#0969da",
    Verdict.MISSING: "#bf8700",
    Verdict.REGRESSION: "#cf222e",
    Verdict.ERROR: "#82071e",
}
_CHARACTER = 6.6
"""Pixels of an average character at 11 pixels."""
_MARGIN = 10
_HEIGHT = 20


def badge_json(sweep: Sweep) -> str:
    """For the endpoint badge of shields.io."""
    verdict = sweep.verdict
    content = {
        "schemaVersion": 1,
        "label": sweep.summary.suite.name,
        "message": verdict.value,
        "color": _COLOURS[verdict].removeprefix("#"),
        "isError": not verdict.is_good,
    }
    return json.dumps(content, indent=1) + "\n"


def badge_svg(sweep: Sweep) -> str:
    """The badge itself: the suite on gray, the verdict on its colour."""
    label, message = sweep.summary.suite.name, sweep.verdict.value
    left, right = (round(len(text) * _CHARACTER) + _MARGIN for text in (label, message))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" role="img" '
        f'aria-label="{in_html(label)}: {message}">',
        f'<clipPath id="r"><rect width="{left + right}" height="{_HEIGHT}" rx="3"/></clipPath><g clip-path="url(#r)">',
        f'<rect width="{left}" height="{_HEIGHT}" fill="#424a53"/>',
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{_COLOURS[sweep.verdict]}"/></g>',
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">',
        f'<text x="{left / 2:g}" y="14">{in_html(label)}</text>',
        f'<text x="{left + right / 2:g}" y="14">{message}</text></g></svg>\n',
    ]
    return "".join(parts)
