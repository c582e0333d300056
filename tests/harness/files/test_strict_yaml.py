"""YAML files as typed models: every mistake is one ConfigError that names what is wrong and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import Field

from engine.errors import ConfigError
from harness.files.strict_yaml import StrictModel, as_plain, load_typed, parse, unknown


class Inner(StrictModel):
    width: int = Field(default=1, ge=1)


class Outer(StrictModel):
    name: str
    inner: Inner = Inner()
    many: tuple[Inner, ...] = ()
    by_name: Mapping[str, Inner] = Field(default_factory=dict)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ({"nmae": "x"}, ["'nmae'", "did you mean 'name'?", "Allowed: name, inner, many, by_name", "'name' is missing"]),
        ({"name": "x", "inner": {"widht": 2}}, ["'inner.widht'", "did you mean 'width'?", "Allowed: width"]),
        ({"name": "x", "many": [{}, {"widht": 2}]}, ["'many.1.widht'", "did you mean 'width'?"]),
        ({"name": "x", "by_name": {"a": {"widht": 2}}}, ["'by_name.a.widht'", "Allowed: width"]),
        ({"name": "x", "inner": {"width": 0}}, ["inner.width: 0:", "greater than or equal to 1"]),
        ([1], ["holds list", "expected a mapping"]),
        (None, ["holds NoneType"]),
    ],
)
def test_mistakes_are_named(content: object, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(content, Outer, "file.yaml")
    assert str(raised.value).startswith("file.yaml: ")
    assert [part for part in parts if part not in str(raised.value)] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "not valid YAML"),
        ("!!python/object/apply:os.getcwd []", "not valid YAML"),
        ("\x80", "cannot be read"),
    ],
)
def test_files_that_are_no_yaml(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=message) as raised:
        load_typed(path, Outer)
    assert str(path) in str(raised.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read"):
        load_typed(tmp_path / "absent.yaml", Outer)


def test_plain_form_reads_back() -> None:
    model = Outer(name="x", many=(Inner(width=3),))
    assert as_plain(model) == {"name": "x", "many": [{"width": 3}]}
    assert parse(as_plain(model), Outer, "x") == model


def test_unknown_name_suggests_the_nearest() -> None:
    assert str(unknown("metric", "topl", ["top1", "miou"])) == (
        "unknown metric 'topl'; did you mean 'top1'? Allowed: miou, top1"
    )
    assert str(unknown("metric", "zzz", [])) == "unknown metric 'zzz'. Allowed: none"


def test_of_many_names_the_nearest_are_listed() -> None:
    """A network of 170 nodes printed 170 names around the one that was meant."""
    names = [f"Conv_{index}" for index in range(170)]
    text = str(unknown("int16 node", "Conv_12x", names))
    assert "did you mean 'Conv_12" in text
    assert text.endswith(" and 165 others")
    assert text.count("Conv_") == 1 + 1 + 5
    assert "Allowed: none" in str(unknown("node", "x", []))
