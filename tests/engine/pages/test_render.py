"""Pages run their own scripts and no other, show names as text, and are the same bytes every time."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import jinja2
import plotly.graph_objects as go
import pytest

from engine.pages.render import figures_data, packed, page_templates, policy, rendered
from tests.conftest import ROOT

TEMPLATES = sorted(path for folder in ("engine", "reports") for path in (ROOT / folder).rglob("*.j2"))
PARTS = {"causes.html.j2", "plots.html.j2"}
"""Templates that pages include."""

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


def test_one_template_has_the_policy_and_all_pages_extend_it() -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in TEMPLATES if path.name.endswith(".html.j2")}
    base = pages.pop("base.html.j2")
    assert '<meta http-equiv="Content-Security-Policy" content="{{ policy }}">' in base
    assert {name for name, text in pages.items() if not text.startswith('{% extends "base.html.j2" %}')} == PARTS


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_every_template_names_its_scripts_and_has_no_handlers_in_its_markup(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    scripts = [
        tag for tag in re.findall(r"<script[^>]*>", text) if "application/" not in tag and "text/java" not in tag
    ]
    assert all('nonce="' in tag for tag in scripts)
    assert not re.search(r"<[^>{]*\son\w+\s*=", text)


def test_a_page_that_asks_its_server_says_so_in_its_policy() -> None:
    assert "connect-src" not in policy("a")
    assert "connect-src 'self'; base-uri 'none'" in policy("a", connects=True)


def test_what_is_packed_has_no_letter_of_markup_and_comes_out_again() -> None:
    text = '{"a": "</script><b>é"}'
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", packed(text))
    assert packed(text) == packed(text)
    assert gzip.decompress(base64.b64decode(packed(text))).decode() == text


def test_figures_have_no_template_of_their_own() -> None:
    figure = go.Figure(go.Scatter(x=[1], y=[2]))
    data = json.loads(gzip.decompress(base64.b64decode(figures_data({"one": figure}, graphs={"g": []}))))
    assert data["figures"]["one"]["data"][0]["y"] == [2]
    assert "template" not in data["figures"]["one"]["layout"]
    assert data["graphs"] == {"g": []}


def test_templates_of_a_room_stand_before_those_of_all() -> None:
    found = page_templates(jinja2.DictLoader({"style.css.j2": "own", "page": '{% extends "base.html.j2" %}'}))
    text = rendered(found.get_template("page"))
    assert "own" in text
    assert "Content-Security-Policy" in text


@dataclass(frozen=True)
class Sentence:
    """A value whose text a page shows."""

    text: str

    def __str__(self) -> str:
        return self.text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\x1b<", r"a\x1b&lt;"),
        (Sentence("a\x1b\u202e<"), r"a\x1b\u202e&lt;"),
        (Path("a\x1b"), r"a\x1b"),
        (1.5, "1.5"),
        (None, "None"),
    ],
)
def test_texts_of_all_values_are_shown_and_not_obeyed(value: object, shown: str) -> None:
    found = page_templates(jinja2.DictLoader({"page": "{{ value }}"})).get_template("page")
    assert found.render(value=value) == shown


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
