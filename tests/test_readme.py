"""The README is short, and its figures are those of the pages that it refers to."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BY_LANGUAGE = pytest.mark.parametrize(("name", "other"), [("README.md", "README.zh.md"), ("README.zh.md", "README.md")])
CONFORMANCE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")


def measure(name: str) -> tuple[str, str]:
    """The percentages of a measure in the table of docs/conformance.md: seen, kept apart."""
    found = re.search(rf"^\| `{name}` \|[^|]*\| ([\d.]+) % \| ([\d.]+) % \|$", CONFORMANCE, re.MULTILINE)
    assert found is not None, name
    return found[1], found[2]


@BY_LANGUAGE
def test_it_is_short_and_begins_with_a_link_to_the_other_language(name: str, other: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 100
    assert f"]({other})" in lines[2]


def test_it_has_the_two_commands_that_ci_reads() -> None:
    for name, command in (("run", "ptqlab run smoke"), ("test", "-m pytest -n 2")):
        assert re.search(rf"<!-- command: {name} -->\n```sh\n[^\n]*{command}\n```\n", README), name


def test_the_test_command_installs_the_torch_that_is_pinned() -> None:
    """By pip, which knows the indices of a machine that uv does not, such as that of the builds for CPUs."""
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert f"pip install uv {' '.join(pinned['zoo'])} &&" in README


@pytest.mark.parametrize(
    ("said", "measures"),
    [
        (r"outputs equal in ([\d.]+) % \(kept apart: ([\d.]+) %\)", ["outputs"]),
        (r"same\s+order in ([\d.]+) % \(([\d.]+) %\)", ["operators"]),
        (r"same device ([\d.]+) % \(([\d.]+) %\)", ["devices"]),
        (
            r"whole networks: ([\d.]+) / ([\d.]+) % where they took part in the fit,\s+([\d.]+) / ([\d.]+) % where",
            ["latency_median", "latency_p90"],
        ),
    ],
)
def test_figures_of_conformance_are_those_of_its_page(said: str, measures: list[str]) -> None:
    found = re.search(said, " ".join(README.split()))
    assert found is not None, said
    pairs = [measure(name) for name in measures]
    assert list(found.groups()) == [pair[part] for part in (0, 1) for pair in pairs]


@BY_LANGUAGE
def test_links_lead_somewhere(name: str, other: str) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text(encoding="utf-8"))
    assert other in targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
