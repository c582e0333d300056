"""Names of custom operators, and the files that register them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.ops.foreign.custom_registry import FILES_VARIABLE, CustomOperators, load_file, load_files, op_register
from tests.engine.ops.custom_operators import FILE, write_files


def one() -> None:
    """An implementation."""


def other() -> None:
    """Another one."""


def test_a_later_registration_takes_the_place_of_an_earlier_one() -> None:
    names = CustomOperators()
    names.register("Name", one)
    names.register("Name", other)
    assert names.find("Name") is other
    assert names.find("other") is other, "it is found by its own name too"
    assert names.find("one") is None


def test_shapes_are_found_by_either_name_of_an_implementation() -> None:
    names = CustomOperators()
    names.register("Name", one)
    names.register_shapes("Name", len)
    assert names.find_shapes("Name") is len
    assert names.find_shapes("one") is len
    assert names.find_shapes("other") is None


def test_what_is_missing_is_answered_with_what_there_is() -> None:
    names = CustomOperators()
    assert names.how_to().startswith("registered: none; name its file in custom_op.op_register_files")
    names.register("B", one)
    names.register("A", other)
    assert names.how_to().startswith("registered: A, B;")


def test_modules_that_cannot_be_imported_are_named() -> None:
    with pytest.raises(ConfigError, match=r"op_register\('no_such_module'\): ModuleNotFoundError"):
        op_register("no_such_module")


def test_a_file_leaves_nothing_but_itself_among_the_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    name = f"_custom_op_{Path(FILE).stem}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    before = set(sys.modules), list(sys.path)
    load_file(tmp_path / FILE)
    assert sys.path == before[1]
    assert set(sys.modules) - before[0] == {name}


def test_what_is_registered_stays_though_the_environment_names_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path)
    monkeypatch.setenv(FILES_VARIABLE, str(tmp_path / FILE))
    names = CustomOperators()
    monkeypatch.setattr("engine.ops.foreign.custom_registry.REGISTRY", names)
    names.register("CustomShrink", one)
    assert names.find("CustomShrink") is one
    assert names.find("CustomHalves") is not None


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("missing.py", None, "no such Python file"),
        ("ops.txt", "", "no such Python file"),
        ("broken.py", "def f(:", "fails: SyntaxError"),
        ("failing.py", "import nothing_of_this_name", "fails: ModuleNotFoundError"),
        ("../outside.py", "", "lies outside custom_op_dir"),
        ("a\0b.py", None, "is no path"),
    ],
)
def test_files_that_do_not_register(tmp_path: Path, name: str, content: str | None, text: str) -> None:
    folder = tmp_path / "ops"
    folder.mkdir()
    if content is not None:
        (folder / name).write_text(content)
    with pytest.raises(ConfigError, match=text):
        load_files([name], folder)


def test_links_do_not_lead_outside(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "outside.py").write_text("raise SystemExit")
    os.symlink(tmp_path / "outside.py", tmp_path / "ops" / "link.py")
    with pytest.raises(ConfigError, match="lies outside"):
        load_files(["link.py"], tmp_path / "ops")


def test_the_environment_names_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.setenv(FILES_VARIABLE, str(tmp_path / FILE))
    fresh = CustomOperators()
    monkeypatch.setattr("engine.ops.foreign.custom_registry.REGISTRY", fresh)
    assert fresh.find("CustomShrink") is not None
    assert fresh.find("CustomShrunk") is None
