"""Names that users register, and what is wrong with a registration, in one message each."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.registry import PLUGINS, Registry, digest_of_source, load_plugins, plugin_modules


class Thing:
    """What this kind must be."""


OURS = ("ours",)


def registry(**options: bool) -> Registry[type]:
    return Registry("thing", "made_up.things", f"{__name__}:Thing", f"{__name__}:OURS", **options)


class One(Thing):
    """A good one."""


class Two(Thing):
    """Another."""


def test_a_class_is_found_by_its_name_with_the_digest_of_its_source() -> None:
    things = registry()
    assert things.register("one")(One) is One
    assert things["one"] is One
    assert "one" in things
    entry = things.entry("one")
    assert entry.where == f"{__name__}.One"
    assert re.fullmatch(r"[0-9a-f]{24}", entry.digest)
    assert things.names() == ["one"]
    assert things.allowed() == ["one", "ours"]


def test_a_name_that_is_taken_or_no_word_is_refused() -> None:
    things = registry()
    things.register("one")(One)
    things.register("one")(One)
    with pytest.raises(ConfigError, match=r"^thing 'one' is registered twice: by .*\.One and by .*\.Two; rename one$"):
        things.register("one")(Two)
    with pytest.raises(ConfigError, match=r"thing 'ours': ptqlab has this name itself; register .*One under another"):
        things.register("ours")(One)
    with pytest.raises(ConfigError, match=r"thing 'no word': a name is a word of letters, digits and _"):
        things.register("no word")(One)
    assert things["one"] is One


def test_a_class_that_is_defined_again_takes_the_place_of_the_one_before() -> None:
    things = registry()

    def define(value: int) -> type:
        @things.register("again")
        class Again(Thing):
            number = value

        return Again

    define(1)
    assert things["again"].number == 1  # type: ignore[attr-defined]
    second = define(2)
    assert things["again"] is second


def test_what_is_of_the_wrong_kind_is_refused_when_it_is_used() -> None:
    things = registry()
    things.register("number")(3)
    things.register("function")(registry)
    for name, what in (("number", "int 3"), ("function", r".*\.registry")):
        with pytest.raises(ConfigError, match=rf"^thing '{name}': {what} is not a class derived from .*\.Thing$"):
            _ = things[name]
    functions = registry(functions=True)
    functions.register("function")(registry)
    assert functions["function"] is registry
    with pytest.raises(ConfigError, match=r"unknown thing 'fnction'; did you mean 'function'\? Allowed: func"):
        _ = functions["fnction"]


def test_a_class_in_no_file_is_refused() -> None:
    made = type("Made", (Thing,), {"__module__": "nowhere"})
    with pytest.raises(ConfigError, match=r"thing 'made': nowhere\.Made is in no source file"):
        digest_of_source(made, "thing 'made'")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, from which modules are imported, and forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def test_a_digest_covers_what_is_imported_from_beside_the_module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "plugged_in.py").write_text("import plugged_helper\nclass A: ...\n")
    (folder / "plugged_helper.py").write_text("X = 1\n")
    (folder / "unrelated.py").write_text("X = 1\n")
    monkeypatch.setenv(PLUGINS, "plugged_in.py")
    load_plugins()
    value = sys.modules["plugged_in"].A
    first = digest_of_source(value, "")
    (folder / "unrelated.py").write_text("X = 2\n")
    assert digest_of_source(value, "") == first
    (folder / "plugged_helper.py").write_text("X = 2\n")
    assert digest_of_source(value, "") != first


def test_plugins_are_files_and_modules(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "by_module.py").write_text("")
    (folder / "sub").mkdir()
    (folder / "sub" / "by_file.py").write_text("")
    monkeypatch.setenv(PLUGINS, " by_module, sub/by_file.py,")
    load_plugins()
    assert {"by_module", "by_file"} <= set(sys.modules)
    assert plugin_modules() == {"by_module": None, "by_file": folder / "sub"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken.py", r"^PTQLAB_PLUGINS: broken\.py cannot be loaded: ZeroDivisionError: division by zero$"),
        (
            "absent.py",
            r"^PTQLAB_PLUGINS: absent\.py cannot be loaded: FileNotFoundError: .* no file .*absent\.py$",
        ),
        ("absent_module", r"^PTQLAB_PLUGINS: absent_module cannot be loaded: ModuleNotFoundError: No module named"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    (folder / "broken.py").write_text("1 / 0\n")
    monkeypatch.setenv(PLUGINS, name)
    with pytest.raises(ConfigError, match=message):
        registry().names()


def distribution(folder: Path, points: str, code: str) -> None:
    (folder / "plugged_package.py").write_text(code)
    about = folder / "plugged_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[made_up.things]\n{points}\n")
    sys.path.append(str(folder))


def test_entry_points_are_loaded_when_their_name_is_used(folder: Path) -> None:
    distribution(
        folder,
        "good = plugged_package:Good\nabsent = plugged_package:Absent\nwrong = plugged_package:wrong",
        f"from {__name__} import Thing\nclass Good(Thing): ...\nwrong = 3\n",
    )
    things = registry()
    assert things.names() == ["absent", "good", "wrong"]
    assert things["good"].__name__ == "Good"
    with pytest.raises(
        ConfigError,
        match=r"^thing 'absent': entry point 'plugged_package:Absent' of plugged-package cannot be loaded: Attr",
    ):
        _ = things["absent"]
    with pytest.raises(ConfigError, match=r"thing 'wrong': int 3 is not a class derived from"):
        _ = things["wrong"]


def test_an_entry_point_whose_name_is_taken_is_named(folder: Path) -> None:
    distribution(folder, "ours = plugged_package:Good", "")
    with pytest.raises(ConfigError, match=r"^thing 'ours': entry point .* of plugged-package: ptqlab has this"):
        registry().names()


def test_two_entry_points_of_one_name_are_named(folder: Path) -> None:
    distribution(
        folder,
        "good = plugged_package:Good",
        f"from {__name__} import Thing\nclass Good(Thing): ...\n",
    )
    things = registry()
    things.register("good")(One)
    with pytest.raises(ConfigError, match=r"thing 'good' is registered twice"):
        _ = things["good"]
