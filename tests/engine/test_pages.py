"""Pages run their own scripts and no other, show names as text, and are the same bytes every time."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import jinja2
import pytest

from engine.pages import policy, rendered
from tests.conftest import ROOT

TEMPLATES = sorted(
    path
    for folder in ("engine", "reports")
    for path in (ROOT / folder).rglob("*.html.j2")
    if "<html" in path.read_text(encoding="utf-8") and path.name != "overview.html.j2"
)
"""All but the page that ``ptqlab serve`` sends, which has its policy in a header."""

PAGE = """<!doctype html><html><head><meta http-equiv="Content-Security-Policy" content="{{ policy }}"></head>
<body><p id="name">{{ name }}</p><p id="raw">{{ name | safe }}</p>
<script nonce="{{ nonce }}">document.body.dataset.own = "ran";</script></body></html>"""

NAMES = (
    "<script>document.body.dataset.strange = 'ran'</script>",
    "<img src=x onerror=\"document.body.dataset.strange = 'ran'\">",
    "<a href=\"javascript:document.body.dataset.strange = 'ran'\" autofocus onfocus=alert(1)>x</a>",
    "</p></body>\u202e\u0007<svg onload=\"document.body.dataset.strange = 'ran'\">",
)


def page(name: str) -> str:
    return rendered(jinja2.Environment(autoescape=True).from_string(PAGE), name=name)


def test_equal_pages_are_equal_bytes_and_others_have_another_nonce() -> None:
    nonces = [re.findall(r'nonce="(\w{32})"', page(name)) for name in ("a", "b", "a")]
    assert nonces[0] == nonces[2] != nonces[1]
    assert page("a") == page("a")
    assert policy(nonces[0][0]) in page("a").replace("&#39;", "'")


def test_a_page_cannot_hold_its_own_nonce() -> None:
    (known,) = set(re.findall(r'nonce="(\w{32})"', page("a")))
    assert known not in re.findall(r'nonce="(\w{32})"', page(f'<script nonce="{known}">1</script>'))[-1:]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_every_template_has_the_policy_and_names_its_scripts(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    assert '<meta http-equiv="Content-Security-Policy" content="{{ policy }}">' in text
    scripts = [
        tag for tag in re.findall(r"<script[^>]*>", text) if "application/" not in tag and "text/java" not in tag
    ]
    assert all('nonce="' in tag for tag in scripts)
    assert not re.search(r"<[^>{]*\son\w+\s*=", text)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_runs_the_page_s_own_script_alone(tmp_path: Path) -> None:
    """Even where a name is put in as markup."""
    path = tmp_path / "page.html"
    path.write_text(page("".join(NAMES)), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom"]
    command = ["chromium", *options, f"--user-data-dir={tmp_path / 'browser'}", path.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    (body,) = re.findall(r"<body[^>]*>", shown)
    assert 'data-own="ran"' in body
    assert "strange" not in body
